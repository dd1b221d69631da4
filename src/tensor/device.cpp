#include "tensor/device.h"

#include <sys/mman.h>

#include <cstring>

#include "base/error.h"
#include "tensor/machine.h"

namespace nanovllm {
namespace {

constexpr size_t kHugePage = size_t{2} << 20;

void* host_allocate(size_t bytes) {
  void* data = mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (data == MAP_FAILED) return nullptr;
  if (bytes >= kHugePage) madvise(data, bytes, MADV_HUGEPAGE);
  return data;
}

void host_release(void* data, size_t bytes) { munmap(data, bytes); }

}  // namespace

const Device& host_device() {
  static constexpr Device device{
      .name = "cpu",
      .allocate = host_allocate,
      .release = host_release,
      .upload = [](void* to, const void* from, size_t bytes) { std::memcpy(to, from, bytes); },
      .download = [](void* to, const void* from, size_t bytes) { std::memcpy(to, from, bytes); },
      .staging = host_device,
      .synchronize = [] {},
      .memory = [] { return Memory{.available = available_memory()}; },
  };
  return device;
}

DeviceBuffer::DeviceBuffer(const Device& device, size_t bytes, std::string_view what)
    : device_(&device), data_(bytes ? device.allocate(bytes) : nullptr), bytes_(bytes) {
  if (bytes && !data_)
    fail(ErrorKind::kOutOfMemory, what, ": cannot have ", bytes >> 20, " MiB of ", device.name,
         " memory, of which ", device.memory().available >> 20, " MiB are available");
}

}  // namespace nanovllm
