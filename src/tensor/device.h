// Where tensors live, and the one owner of such memory.
//
// A Device is a small table of functions, as a backend is (ops/ops.h): the host's memory here, a GPU's from
// its own folder.
#pragma once

#include <cstddef>
#include <string_view>
#include <utility>

namespace nanovllm {

struct Memory {
  size_t available = 0;  // can still be had; 0: cannot be told
  size_t total = 0;      // of a device's own memory; 0: the host's, which others share
};

struct Device {
  std::string_view name;
  void* (*allocate)(size_t bytes);  // zeroed, 64-byte aligned; null: no memory
  void (*release)(void* data, size_t bytes);
  void (*upload)(void* device, const void* host, size_t bytes);    // complete on return
  void (*download)(void* host, const void* device, size_t bytes);  // complete on return
  const Device& (*staging)();  // host memory that it copies from and to fastest
  void (*synchronize)();       // waits for everything that was begun on it
  Memory (*memory)();
};

// Host memory: 2 MiB pages where the system grants them (a walk over gigabytes of weights misses the TLB
// otherwise).
const Device& host_device();

// Owns memory of a device; frees it once. Zeroed at first.
// throws Error(kOutOfMemory), naming what the memory was for
class DeviceBuffer {
 public:
  DeviceBuffer() = default;
  DeviceBuffer(const Device& device, size_t bytes, std::string_view what);
  DeviceBuffer(DeviceBuffer&& other) noexcept
      : device_(std::exchange(other.device_, nullptr)),
        data_(std::exchange(other.data_, nullptr)),
        bytes_(std::exchange(other.bytes_, 0)) {}
  DeviceBuffer& operator=(DeviceBuffer other) noexcept {
    std::swap(device_, other.device_);
    std::swap(data_, other.data_);
    std::swap(bytes_, other.bytes_);
    return *this;
  }
  ~DeviceBuffer() {
    if (data_) device_->release(data_, bytes_);
  }

  void* data() const { return data_; }
  size_t bytes() const { return bytes_; }

 private:
  const Device* device_ = nullptr;
  void* data_ = nullptr;
  size_t bytes_ = 0;
};

}  // namespace nanovllm
