// A tensor is a view: pointer, element type, shape, strides. It owns nothing and is passed by value.
//
// Weights and cache are owned by DeviceBuffer, a step's activations by Arena. Strides are in elements; the
// last dimension is always contiguous, so a row can be read as an array.
#pragma once

#include <array>
#include <cstdint>
#include <initializer_list>
#include <string>

#include "tensor/dtype.h"

namespace nanovllm {

struct Tensor {
  static constexpr int kMaxRank = 4;

  void* data = nullptr;
  DType dtype = DType::kF32;
  int rank = 0;
  std::array<int64_t, kMaxRank> shape{};
  std::array<int64_t, kMaxRank> stride{};  // elements

  // A contiguous view of memory that somebody else owns.
  static Tensor view(void* data, DType dtype, std::initializer_list<int64_t> shape);

  bool defined() const { return data != nullptr; }
  int64_t num_elements() const;
  bool contiguous() const;

  // Elements [begin, begin + count) of the first dimension.
  Tensor slice(int64_t begin, int64_t count) const;
  // Element `index` of the first dimension, one rank lower.
  Tensor operator[](int64_t index) const;

  template <class T>
  T* ptr() const {
    return static_cast<T*>(data);
  }
};

// "[3, 64] f32", for messages.
std::string to_string(const Tensor& tensor);

// Heads [first, first + count) of packed rows [num_tokens, all_heads * head_dim], as [num_tokens, count,
// head_dim].
Tensor heads(const Tensor& packed, int64_t first, int64_t count, int64_t head_dim);

}  // namespace nanovllm
