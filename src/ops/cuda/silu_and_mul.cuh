// SwiGLU's elementwise part (ops/silu_and_mul.h), of one element.
#pragma once

#include "ops/cuda/cuda_common.cuh"
#include "ops/scalar_math.h"

namespace nanovllm::cuda {

template <class T>
__device__ T silu_and_mul_of(T gate_value, T up_value) {
  const float gate = to_float(gate_value), up = to_float(up_value);
  return round_to<T>(gate / (1.0f + exp_f32(-gate)) * up);
}

}  // namespace nanovllm::cuda
