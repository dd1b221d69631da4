// exp and log as every backend computes them: plain float32 arithmetic with explicit fused multiply-adds, so
// that each processor and instruction set gives the same bits. Loops over them vectorise.
//
// Internal linkage on purpose: files compiled for different instruction sets each need their own copy.
#pragma once

#include <bit>
#include <cstdint>

namespace nanovllm {

#if defined(__CUDACC__)
#define NANOVLLM_EVERYWHERE __host__ __device__
#else
#define NANOVLLM_EVERYWHERE
#endif

NANOVLLM_EVERYWHERE static inline float fused_multiply_add(float a, float b, float c) {
#if defined(__CUDA_ARCH__)
  return __fmaf_rn(a, b, c);
#else
  return __builtin_fmaf(a, b, c);
#endif
}

// e^x within 2 ULP for x in [-87.3, 88]; 0 below, e^88 = 1.65e38 above, NaN for NaN.
// x = n ln 2 + r, |r| <= ln 2 / 2; Taylor series to r^7 (next term below 6e-9); 2^n through the exponent
// bits.
NANOVLLM_EVERYWHERE static inline float exp_f32(float x) {
  const float clamped = x > 88.0f ? 88.0f : x;
  const float shifted =
      fused_multiply_add(clamped, 1.44269504f, 12582912.0f);  // 1.5 2^23: the sum rounds to an integer
  const float n = shifted - 12582912.0f;
  float r = fused_multiply_add(n, -0.693145752f, clamped);  // the upper bits of ln 2, then the rest
  r = fused_multiply_add(n, -1.42860677e-6f, r);
  float p = 1.0f / 5040;
  p = fused_multiply_add(p, r, 1.0f / 720);
  p = fused_multiply_add(p, r, 1.0f / 120);
  p = fused_multiply_add(p, r, 1.0f / 24);
  p = fused_multiply_add(p, r, 1.0f / 6);
  p = fused_multiply_add(p, r, 0.5f);
  p = fused_multiply_add(p, r, 1.0f);
  p = fused_multiply_add(p, r, 1.0f);
  const uint32_t exponent = std::bit_cast<uint32_t>(shifted) - 0x4B400000u + 127u;
  const float result = p * std::bit_cast<float>(exponent << 23);
  return x < -87.3f ? 0.0f : result;
}

// ln x within 2 ULP for finite normal x > 0 away from 1; near 1 the absolute error is below 1e-7.
// x = 2^e m, m in [2/3, 4/3); ln m = 2 atanh(s), s = (m - 1) / (m + 1), series to s^9 (next term below 1e-8
// of the sum).
NANOVLLM_EVERYWHERE static inline float log_f32(float x) {
  const uint32_t bits = std::bit_cast<uint32_t>(x);
  const int32_t e = int32_t(bits - 0x3F2AAAABu) >> 23;
  const float m = std::bit_cast<float>(bits - (uint32_t(e) << 23));
  const float s = (m - 1.0f) / (m + 1.0f), z = s * s;
  float p = 1.0f / 9;
  p = fused_multiply_add(p, z, 1.0f / 7);
  p = fused_multiply_add(p, z, 1.0f / 5);
  p = fused_multiply_add(p, z, 1.0f / 3);
  p = fused_multiply_add(p, z, 1.0f);
  return fused_multiply_add(float(e), 0.693147181f, 2.0f * s * p);
}

}  // namespace nanovllm
