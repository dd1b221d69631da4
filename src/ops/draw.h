// The arithmetic of a draw (ops/sample.h), with the same roundings on every backend: floats, then integers, whose sums are exact in
// any order.
#pragma once

#include <cstdint>

#include "ops/scalar_math.h"

namespace nanovllm {

// Ids of a row are drawn from in chunks of so many. Weights of 2^13 chunks are less than 2^64 together (weight_of_chunk).
inline constexpr int kDrawChunk = 2048;
inline constexpr int64_t kMostDrawIds = int64_t{kDrawChunk} << 13;

NANOVLLM_EVERYWHERE static inline int64_t num_draw_chunks(int64_t num_ids) {
  return (num_ids + kDrawChunk - 1) / kDrawChunk;
}

// 64 random bits as a part of a whole: floor(total · bits / 2^64), uniform in [0, total).
NANOVLLM_EVERYWHERE static inline uint64_t part_of(uint64_t total, uint32_t high, uint32_t low) {
#if defined(__CUDA_ARCH__)
  return __umul64hi(total, uint64_t(high) << 32 | low);
#else
  const uint64_t t0 = uint32_t(total), t1 = total >> 32;
  const uint64_t middle = t1 * low + (t0 * low >> 32);  // cannot overflow: (2^32 - 1)^2 + 2^32 - 1
  return t1 * high + (middle >> 32) + ((uint64_t(uint32_t(middle)) + t0 * high) >> 32);
#endif
}

// How far a logit is below `max`, in units of the temperature: (logit − max) / temperature <= 0.
NANOVLLM_EVERYWHERE static inline float below_max(float logit, float max, float inverse_temperature) {
  return (logit - max) * inverse_temperature;
}

// The weight of an id within its chunk, floor(2^30 e^below); at most 2^41 in a chunk.
NANOVLLM_EVERYWHERE static inline uint32_t weight_in_chunk(float below) {
  return uint32_t(int32_t(exp_f32(below) * 0x1p30f));
}

// The weight of a chunk within its row, floor(2^10 · weight · e^below), of the weights of its ids together, and of how far its
// largest logit is below the row's.
NANOVLLM_EVERYWHERE static inline uint64_t weight_of_chunk(uint64_t weight, float below) {
  return uint64_t(double(weight) * double(exp_f32(below)) * 0x1p10);
}

// The logarithm of a row's weights of chunks together, in units of its largest id's: log Σ e^below.
NANOVLLM_EVERYWHERE static inline float log_of_weights(uint64_t total) {
  return log_f32(float(double(total) * 0x1p-40));
}

// The weight of an id by which top_p counts, floor(2^32 e^below).
NANOVLLM_EVERYWHERE static inline uint64_t weight_in_row(float below) {
  return uint64_t(double(exp_f32(below)) * 0x1p32);
}

// What the weights that top_p keeps must reach, of the sum of all: one of them at least, however small top_p is.
NANOVLLM_EVERYWHERE static inline double wanted_of_top_p(float top_p, uint64_t total) {
  const double wanted = double(top_p) * double(total);
  return wanted < 1 ? 1 : wanted;
}

}  // namespace nanovllm
