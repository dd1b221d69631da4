#include "tensor/arena.h"

#include <algorithm>

#include "base/assert.h"
#include "base/error.h"

namespace nanovllm {

Arena::Arena(const Device& device, size_t bytes) : buffer_(device, bytes, "activations"), capacity_(bytes) {}

size_t Arena::bytes_of(DType dtype, std::initializer_list<int64_t> shape) {
  size_t bytes = dtype_bytes(dtype);
  for (int64_t n : shape) bytes *= size_t(n);
  return (bytes + kAlignment - 1) / kAlignment * kAlignment;
}

Tensor Arena::make(DType dtype, std::initializer_list<int64_t> shape) {
  const size_t bytes = bytes_of(dtype, shape);
  ASSERT(bytes <= capacity_ - used_);
  // Measuring: any address but null, which would be "no tensor".
  const uintptr_t begin = buffer_.data() ? reinterpret_cast<uintptr_t>(buffer_.data()) : kAlignment;
  void* data = reinterpret_cast<void*>(begin + used_);
  used_ += bytes;
  peak_ = std::max(peak_, used_);
  return Tensor::view(data, dtype, shape);
}

}  // namespace nanovllm
