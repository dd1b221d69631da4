// The elementwise parts of RMSNorm (ops/rms_norm.h), for the kernels that have one.
#pragma once

#include "ops/cuda/cuda_common.cuh"

namespace nanovllm::cuda {

constexpr int kLanes = 16;  // half a warp: each chains the squares of every sixteenth element

// Among the 16 lanes of half a warp: i and i + 8, i and i + 4, ...; all get the sum.
__device__ inline float sum_of_lanes(float x) {
  for (int width = kLanes / 2; width > 0; width /= 2) x += __shfl_xor_sync(0xffffffffu, x, width);
  return x;
}

__device__ inline float inverse_rms(float sum_squares, int64_t width, float eps) {
  return 1.0f / sqrtf(sum_squares / float(width) + eps);
}

template <class T>
__device__ inline T normalised(float x, float inverse, float weight, T) {
  return round_to<T>(to_float(round_to<T>(x * inverse)) * weight);
}

}  // namespace nanovllm::cuda
