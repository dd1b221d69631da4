// The elementwise parts of attention by tensor cores (ops/attention.h), the same for every kernel.
#pragma once

#include "ops/attention.h"
#include "ops/cuda/cuda_common.cuh"

namespace nanovllm::cuda {

// Scores times this are exponents of 2.
__device__ inline float scale_of(float scale) { return __fmul_rn(scale, 1.44269504f); }

__device__ inline float exp2_approximate(float x) {
  float y;
  asm("ex2.approx.ftz.f32 %0, %1;" : "=f"(y) : "f"(x));
  return y;
}
// m: -inf where the row sees no key of the chunk; then all p are 0.
__device__ inline float probability(float score, float scale, float m) {
  return exp2_approximate(__fmaf_rn(score, scale, m == -INFINITY ? 0.0f : -m));
}
// p in [0, 1] as a multiple of 2^-23: sums of these (mod 2^32, an offset of 1.0f a key) are exact.
__device__ inline uint32_t quanta(float p) { return __float_as_uint(__fadd_rn(p, 1.0f)); }
__device__ inline float from_quanta(uint32_t sum) {
  return __fmul_rn(__uint2float_rn(sum - 0x3F800000u * uint32_t(kAttentionChunk)), 0x1p-23f);
}

// A row's state over the chunks so far, joined with the next chunk's: x' = fma(x, a, x_c b).
struct Join {
  float max, a, b;
};
__device__ inline Join join(float max, float chunk_max) {
  const float m = fmaxf(max, chunk_max);
  if (m == -INFINITY) return {m, 1, 0};  // neither has seen a key
  return {m, exp2_approximate(__fsub_rn(max, m)), exp2_approximate(__fsub_rn(chunk_max, m))};
}
__device__ inline float joined(float x, float chunk_x, const Join& j) {
  return __fmaf_rn(x, j.a, __fmul_rn(chunk_x, j.b));
}

}  // namespace nanovllm::cuda
