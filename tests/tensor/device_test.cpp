#include "tensor/device.h"

#include <algorithm>
#include <cstdint>
#include <vector>

#include "support.h"

namespace nanovllm {
namespace {

// A device that counts, to see that memory is freed once.
struct Counts {
  int allocated = 0, released = 0;
};
Counts counts;

const Device& counting_device() {
  static constexpr Device device{.name = "counting",
                                 .allocate = [](size_t bytes) -> void* {
                                   ++counts.allocated;
                                   return ::operator new(bytes);
                                 },
                                 .release =
                                     [](void* data, size_t) {
                                       ++counts.released;
                                       ::operator delete(data);
                                     },
                                 .upload = nullptr,
                                 .download = nullptr};
  return device;
}

TEST(DeviceBuffer, IsZeroedAndAligned) {
  for (size_t bytes : {size_t{1}, size_t{4096}, size_t{3} << 20}) {
    const DeviceBuffer buffer(host_device(), bytes, "test");
    const uint8_t* data = static_cast<const uint8_t*>(buffer.data());
    EXPECT_EQ(buffer.bytes(), bytes);
    EXPECT_EQ(reinterpret_cast<uintptr_t>(data) % 64, 0u);
    EXPECT_TRUE(std::all_of(data, data + bytes, [](uint8_t b) { return b == 0; }));
  }
}

TEST(DeviceBuffer, NothingIsAllocatedForNoBytes) {
  const DeviceBuffer none, empty(host_device(), 0, "test");
  EXPECT_EQ(none.data(), nullptr);
  EXPECT_EQ(empty.data(), nullptr);
  EXPECT_EQ(empty.bytes(), 0u);
}

TEST(DeviceBuffer, SaysWhatTheMemoryWasFor) {
  try {
    const DeviceBuffer buffer(host_device(), size_t{1} << 60, "weights");
    FAIL() << "2^60 bytes were allocated";
  } catch (const Error& error) {
    EXPECT_EQ(error.kind(), ErrorKind::kOutOfMemory);
    EXPECT_TRUE(std::string_view(error.what())
                    .starts_with("weights: cannot have 1099511627776 MiB of cpu memory, of which "));
  }
}

TEST(DeviceBuffer, IsFreedOnce) {
  counts = {};
  {
    DeviceBuffer a(counting_device(), 100, "a"), b(counting_device(), 200, "b");
    void* memory = a.data();
    DeviceBuffer moved(std::move(a));
    EXPECT_EQ(moved.data(), memory);
    EXPECT_EQ(moved.bytes(), 100u);
    EXPECT_EQ(a.data(), nullptr);  // NOLINT: a moved-from buffer is empty
    b = std::move(moved);
    EXPECT_EQ(b.data(), memory);
    EXPECT_EQ(counts.released, 1);
  }
  EXPECT_EQ(counts.allocated, 2);
  EXPECT_EQ(counts.released, 2);
}

TEST(HostDevice, CopiesUpAndDown) {
  const DeviceBuffer buffer(host_device(), 16, "test");
  const std::vector<int32_t> sent{1, -2, 3, -4};
  std::vector<int32_t> received(4);
  host_device().upload(buffer.data(), sent.data(), 16);
  host_device().download(received.data(), buffer.data(), 16);
  EXPECT_EQ(received, sent);
}

}  // namespace
}  // namespace nanovllm
