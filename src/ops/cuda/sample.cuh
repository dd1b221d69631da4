// What sampling leaves out: ids whose noise cannot lift them to a value that the row already has.
//
// Let F, the floor, be no more than the largest x + g of the row. An id of bits b is left out if
//
//   float(b) > exp2f(s)   or   s < 0,   s = logit · scale + offset,
//   scale = log2(e) / temperature,   offset = 32 + 2^-10 + 2^-19 |F| − log2(e) F
//
// In real numbers, without the two margins: s = 32 + log2(e) (x − F). gumbel_f32 makes u of b with
// max(b, 1) 2^-32 <= u, and g = −ln(−ln(1 − u)) <= −ln u. So b > 2^s means u > e^(x − F) and x + g < F; s < 0 means that for
// every b.
//
// 2^-10 covers what does not grow: gumbel_f32 exceeds −ln(max(b, 1) 2^-32) by less than 2^-16 (two logs within 2 ULP;
// tests/ops/cuda/pruning_test.cu), exp2f errs by 2 ULP, float(b) and u by one rounding each. In relative errors v = 2^-24 of one rounding
// (log2(e) has 1 v, too), x + g has 2 v |x|, logit · scale 3 v |x|, the sum s 1 v (|x| + |F|), offset 3 v |F|, all times
// log2(e), and 200 v for the 32 and g: for |x| <= 2 |F| + 64 less than 24 v |F| + 800 v, which is less than
// 2^-19 |F| + 2^-14. Beyond that no margin is needed: a negative x is below F by more than 64 and any noise (at most 22.2),
// and a positive one has s > 100, where nothing is left out.
//
// A floor of −infinity (or NaN, or infinity: sick rows) leaves nothing out, and that is all there is where scale would be
// denormal. Larger logits have larger s: four ids can be left out by their largest logit and smallest b.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstdint>

#include "ops/scalar_math.h"
#include "tensor/arena.h"

namespace nanovllm::cuda {

struct Pruning {
  static constexpr float kLog2E = 1.44269504f;

  NANOVLLM_EVERYWHERE static bool works_at(float temperature) { return temperature < 0x1p100f; }
  NANOVLLM_EVERYWHERE static float scale_of(float temperature) { return kLog2E / temperature; }
  NANOVLLM_EVERYWHERE static float offset_of(float floor) {
    return fused_multiply_add(floor, -kLog2E, fused_multiply_add(fabsf(floor), 0x1p-19f, 32 + 0x1p-10f));
  }
  // s; NaN leaves nothing out.
  NANOVLLM_EVERYWHERE static float exponent(float logit, float scale, float offset) {
    return fused_multiply_add(logit, scale, offset);
  }
  NANOVLLM_EVERYWHERE static bool loses_with_any_bits(float exponent) { return exponent < 0; }
  NANOVLLM_EVERYWHERE static bool loses(uint32_t bits, float exponent) {
    return float(bits) > exp2f(exponent);
  }
};

// Rows without filters are cut into parts, a thread block each, as many as fill an H200 (132 SMs) with four blocks an SM.
constexpr int kPartThreads = 256, kMaxParts = 32;
constexpr int64_t kFullGpu = 4 * 132;

inline int num_sample_parts(int64_t num_rows, int64_t num_valid) {
  const int64_t at_most =
      std::min<int64_t>(kMaxParts, (num_valid + 4 * kPartThreads - 1) / (4 * kPartThreads));
  return int(std::clamp<int64_t>(kFullGpu / num_rows, 1, at_most));
}

// Parts of a row tell each other of its largest x + g where that is worth clearing memory first: a few long parts.
inline bool sample_parts_share_floors(int num_parts) { return num_parts > 1 && num_parts <= kMaxParts / 2; }

// What a thread block found in its part of a row: keys (sample.cu), 0: none.
struct SamplePart {
  uint64_t first;  // of the largest logit
  uint64_t best;   // of the largest x + g
};

inline Tensor make_sample_parts(Arena& arena, int64_t num_rows, int num_parts) {
  return arena.make(DType::kI32, {num_rows, num_parts, sizeof(SamplePart) / sizeof(int32_t)});
}

inline Tensor make_row_floors(Arena& arena, int64_t num_rows) { return arena.make(DType::kI32, {num_rows}); }

// The most for any number of rows up to this: there is more than one part only while all are at most kFullGpu.
inline size_t sample_workspace_bytes(int64_t num_rows) {
  const int64_t most_parts = std::max(num_rows, kFullGpu);
  return Arena::bytes_of(DType::kI32, {most_parts, sizeof(SamplePart) / sizeof(int32_t)}) +
         Arena::bytes_of(DType::kI32, {most_parts});
}

}  // namespace nanovllm::cuda
