// Shape checks by name, once, for all backends: a dimension takes its value where it is first seen and must
// agree later.
//
//   check_shape("rms_norm", "weight", a.weight, {&hidden_size})
//   → rms_norm: weight is [2] f32, want [hidden_size=3]
//
// A shape that is wrong here is a mistake of the caller of an op, an embedder's or ours: Error(kConfig).
#pragma once

#include <initializer_list>
#include <string_view>

#include "tensor/tensor.h"

namespace nanovllm {

struct Dim {
  std::string_view name;
  int64_t size = -1;  // -1: not seen yet
};

void check_shape(std::string_view op, std::string_view argument, const Tensor& tensor,
                 std::initializer_list<Dim*> dims);
void check_dtype(std::string_view op, std::string_view argument, const Tensor& tensor, DType want);

}  // namespace nanovllm
