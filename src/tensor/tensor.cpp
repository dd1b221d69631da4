#include "tensor/tensor.h"

#include "base/assert.h"
#include "base/error.h"

namespace nanovllm {

Tensor Tensor::view(void* data, DType dtype, std::initializer_list<int64_t> shape) {
  ASSERT(shape.size() <= size_t(kMaxRank));
  Tensor t;
  t.data = data;
  t.dtype = dtype;
  for (int64_t n : shape) t.shape[size_t(t.rank++)] = n;
  int64_t stride = 1;
  for (size_t i = size_t(t.rank); i-- > 0;) {
    t.stride[i] = stride;
    stride *= t.shape[i];
  }
  return t;
}

int64_t Tensor::num_elements() const {
  int64_t n = 1;
  for (int i = 0; i < rank; ++i) n *= shape[size_t(i)];
  return n;
}

bool Tensor::contiguous() const {
  int64_t want = 1;
  for (size_t i = size_t(rank); i-- > 0;) {
    if (shape[i] != 1 && stride[i] != want) return false;
    want *= shape[i];
  }
  return true;
}

Tensor Tensor::slice(int64_t begin, int64_t count) const {
  ASSERT(rank > 0 && begin >= 0 && count >= 0 && begin + count <= shape[0]);
  Tensor t = *this;
  t.data = static_cast<std::byte*>(data) + size_t(begin * stride[0]) * dtype_bytes(dtype);
  t.shape[0] = count;
  return t;
}

Tensor Tensor::operator[](int64_t index) const {
  const Tensor one = slice(index, 1);
  Tensor t = one;
  --t.rank;
  for (size_t i = 0; i < size_t(t.rank); ++i) {
    t.shape[i] = one.shape[i + 1];
    t.stride[i] = one.stride[i + 1];
  }
  return t;
}

std::string to_string(const Tensor& tensor) {
  std::string text = "[";
  for (size_t i = 0; i < size_t(tensor.rank); ++i) text += (i ? ", " : "") + std::to_string(tensor.shape[i]);
  return text + "] " + std::string(dtype_name(tensor.dtype));
}

Tensor heads(const Tensor& packed, int64_t first, int64_t count, int64_t head_dim) {
  ASSERT(packed.rank == 2 && (first + count) * head_dim <= packed.shape[1]);
  Tensor t = packed;
  t.data = static_cast<std::byte*>(packed.data) + size_t(first * head_dim) * dtype_bytes(packed.dtype);
  t.rank = 3;
  t.shape = {packed.shape[0], count, head_dim};
  t.stride = {packed.stride[0], head_dim, 1};
  return t;
}

}  // namespace nanovllm
