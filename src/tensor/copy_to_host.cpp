#include "tensor/copy_to_host.h"

#include "base/assert.h"

namespace nanovllm {
namespace {

// The last dimension is contiguous, the others need not be. data: the tensor's first element.
void append(const Tensor& tensor, const std::byte* data, std::vector<float>& values) {
  if (tensor.rank > 1) {
    for (int64_t i = 0; i < tensor.shape[0]; ++i)
      append(tensor[i], data + size_t(i * tensor.stride[0]) * dtype_bytes(tensor.dtype), values);
    return;
  }
  for (int64_t i = 0; i < tensor.shape[0]; ++i) values.push_back(read_float(data, tensor.dtype, i));
}

}  // namespace

std::vector<float> copy_to_host(const Device& device, const Tensor& tensor) {
  ASSERT(tensor.dtype != DType::kI32 && tensor.rank > 0);
  std::vector<float> values;
  if (tensor.num_elements() == 0) return values;
  int64_t span = 1;  // elements from the first to the last
  for (int i = 0; i < tensor.rank; ++i) span += (tensor.shape[size_t(i)] - 1) * tensor.stride[size_t(i)];
  std::vector<std::byte> bytes(size_t(span) * dtype_bytes(tensor.dtype));
  device.download(bytes.data(), tensor.data, bytes.size());
  values.reserve(size_t(tensor.num_elements()));
  append(tensor, bytes.data(), values);
  return values;
}

}  // namespace nanovllm
