// A row of logits and what is wanted of it, the order of its ids, and sums by the threads that sample it.
#pragma once

#include <cfloat>
#include <cstdint>

#include "ops/cuda/cuda_common.cuh"
#include "ops/draw.h"
#include "ops/sample.h"
#include "tensor/arena.h"

namespace nanovllm::cuda {

struct SampleChunk {
  uint32_t largest;  // logit, as ordered() has it
  uint32_t first;    // greedy rows: its lowest id
  uint64_t sum;      // others: of weight_in_chunk of what is kept
};

inline Tensor make_sample_chunks(Arena& arena, int64_t num_rows, int64_t num_valid_tokens) {
  return arena.make(DType::kI32,
                    {num_rows, num_draw_chunks(num_valid_tokens), sizeof(SampleChunk) / sizeof(int32_t)});
}

inline size_t sample_workspace_bytes(int64_t num_rows, int64_t vocab_size) {
  return Arena::bytes_of(DType::kI32,
                         {num_rows, num_draw_chunks(vocab_size), sizeof(SampleChunk) / sizeof(int32_t)});
}

constexpr int kSampleThreads = 1024;  // of a block that finishes a row
constexpr unsigned kAllLanes = 0xFFFFFFFFu;

struct SampleParams {
  int32_t* out;
  const float* logits;
  const float *temperature, *top_p, *min_p;
  const int32_t *top_k, *seeds, *positions, *sample_indices;
  int64_t logits_stride;
  int num_valid;
};

// Larger number: larger logit, NaN above all; -0 and 0 are equal.
__device__ inline uint32_t ordered(float logit) {
  const uint32_t bits = __float_as_uint(logit + 0.0f);
  return bits & 0x80000000u ? ~bits : bits | 0x80000000u;
}

__device__ inline float value_of(uint32_t ordered) {
  return __uint_as_float(ordered & 0x80000000u ? ordered ^ 0x80000000u : ~ordered);
}

// Larger key: earlier. The upper half orders logits, the lower prefers low ids.
__device__ inline uint64_t key_of(float logit, int id) {
  return uint64_t(ordered(logit)) << 32 | (0xFFFFFFFFu - uint32_t(id));
}

// Below that of any finite logit.
__device__ inline uint64_t lowest_key() { return uint64_t(ordered(-FLT_MAX)) << 32; }

__device__ inline float at(const float4& four, int i) {
  return i == 0 ? four.x : i == 1 ? four.y : i == 2 ? four.z : four.w;
}

// The larger, a positive NaN if one is NaN.
__device__ inline float max_of(float a, float b) {
  float result;
  asm("max.NaN.ftz.f32 %0, %1, %2;" : "=f"(result) : "f"(a), "f"(b));
  return result;
}

__device__ inline uint64_t sum_of_warp(uint64_t value) {
  for (int width = 16; width > 0; width /= 2) value += __shfl_xor_sync(kAllLanes, value, width);
  return value;
}

// Each lane's value and those of the lanes before it.
__device__ inline uint64_t running_sum_of_warp(uint64_t value) {
  for (int distance = 1; distance < 32; distance *= 2) {
    const uint64_t other = __shfl_up_sync(kAllLanes, value, unsigned(distance));
    if (int(threadIdx.x % 32) >= distance) value += other;
  }
  return value;
}

// The same of a block of kSampleThreads; sum: of all its threads.
__device__ inline uint64_t running_sum_of_block(uint64_t value, uint64_t& sum) {
  __shared__ uint64_t of_warps[kSampleThreads / 32];
  const int lane = int(threadIdx.x % 32), warp = int(threadIdx.x / 32);
  value = running_sum_of_warp(value);
  __syncthreads();  // the last call's sums are read
  if (lane == 31) of_warps[warp] = value;
  __syncthreads();
  const uint64_t of_warp = of_warps[lane], running = running_sum_of_warp(of_warp);
  sum = __shfl_sync(kAllLanes, running, 31);
  return value + __shfl_sync(kAllLanes, running - of_warp, warp);
}

struct SampleRow {
  const float* logits;
  int count;
  float temperature, inverse_temperature;
  int32_t top_k;
  float top_p, min_p;

  __device__ SampleRow(const SampleParams& p, int64_t r)
      : logits(p.logits + r * p.logits_stride),
        count(p.num_valid),
        temperature(p.temperature[r]),
        inverse_temperature(1.0f / temperature),
        top_k(p.top_k[r]),
        top_p(p.top_p[r]),
        min_p(p.min_p[r]) {}
  // At temperature 1, without filters but top_k.
  __device__ SampleRow(const float* logits, int count, int top_k)
      : logits(logits),
        count(count),
        temperature(1),
        inverse_temperature(1),
        top_k(top_k),
        top_p(1),
        min_p(0) {}

  __device__ bool greedy() const { return temperature < kGreedyTemperature || top_k == 1; }
  __device__ bool cuts_k() const { return top_k > 0 && top_k < count; }
  __device__ bool cuts_p() const { return top_p < 1; }
  __device__ bool cuts_min_p() const { return min_p >= kLeastMinP; }
  __device__ bool filtered() const { return cuts_k() || cuts_p() || cuts_min_p(); }
  __device__ int num_chunks() const { return int(num_draw_chunks(count)); }
  __device__ float below(float logit, float max) const { return below_max(logit, max, inverse_temperature); }

  // Logits id to id + 3, id divisible by four; -infinity from the end on.
  __device__ float4 four(int id) const {
    const bool aligned = reinterpret_cast<uint64_t>(logits) % sizeof(float4) == 0;
    if (aligned && id + 3 < count) return *reinterpret_cast<const float4*>(logits + id);
    const auto logit = [&](int i) { return i < count ? logits[i] : -INFINITY; };
    return {logit(id), logit(id + 1), logit(id + 2), logit(id + 3)};
  }

  // body(logit, id) for the ids of a chunk whose logits are finite and at least `least`; by one warp.
  template <class Body>
  __device__ void for_each_of_chunk(int chunk, float least, Body&& body) const {
    constexpr int kBatch = 4;  // loads in flight
    const int begin = chunk * kDrawChunk + 4 * int(threadIdx.x % 32), end = min(begin + kDrawChunk, count);
    for (int first = begin; first < end; first += 128 * kBatch) {
      float4 fours[kBatch];
#pragma unroll
      for (int j = 0; j < kBatch; ++j) fours[j] = four(first + 128 * j);
#pragma unroll
      for (int j = 0; j < kBatch; ++j)
#pragma unroll
        for (int i = 0; i < 4; ++i)
          if (const float logit = at(fours[j], i); logit >= least) body(logit, first + 128 * j + i);
    }
  }
  // The same of the whole row, by all threads of the block; chunks whose largest logit is less are not read.
  template <class Body>
  __device__ void for_each(const SampleChunk* chunks, float least, Body&& body) const {
    for (int c = int(threadIdx.x / 32); c < num_chunks(); c += int(blockDim.x / 32))
      if (value_of(chunks[c].largest) >= least) for_each_of_chunk(c, least, body);
  }
};

constexpr int kScanThreads = 128;

// Of the block that scans a row's chunk: its largest logit, of greedy rows its lowest id, of others without filters their weight.
// Right in thread 0. A thread has all its logits in flight at once.
__device__ inline SampleChunk scan_chunk(const SampleRow& row, int chunk) {
  constexpr int kFours = kDrawChunk / 4 / kScanThreads, kWarps = kScanThreads / 32;
  __shared__ uint32_t largest_of[kWarps], first_of[kWarps];
  __shared__ uint64_t sum_of[kWarps];
  const int first = chunk * kDrawChunk + 4 * int(threadIdx.x), lane = int(threadIdx.x % 32),
            warp = int(threadIdx.x / 32);
  float4 fours[kFours];
#pragma unroll
  for (int j = 0; j < kFours; ++j) fours[j] = row.four(first + 4 * kScanThreads * j);
  float max = -INFINITY;
#pragma unroll
  for (const float4& four : fours) max = max_of(max, max_of(max_of(four.x, four.y), max_of(four.z, four.w)));
  const uint32_t of_warp = __reduce_max_sync(kAllLanes, ordered(max));
  if (lane == 0) largest_of[warp] = of_warp;
  __syncthreads();
  const uint32_t largest = __reduce_max_sync(kAllLanes, largest_of[lane % kWarps]);
  max = value_of(largest);

  uint32_t first_id = uint32_t(row.count);
  uint64_t sum = 0;
  if (row.greedy()) {
#pragma unroll
    for (int j = kFours - 1; j >= 0; --j)
#pragma unroll
      for (int i = 3; i >= 0; --i)
        if (at(fours[j], i) == max) first_id = uint32_t(first + 4 * kScanThreads * j + i);
  } else if (!row.filtered() && max != -INFINITY) {
#pragma unroll
    for (const float4& four : fours)
#pragma unroll
      for (int i = 0; i < 4; ++i) sum += weight_in_chunk(row.below(at(four, i), max));
  }
  first_id = __reduce_min_sync(kAllLanes, first_id);
  sum = sum_of_warp(sum);
  if (lane == 0) first_of[warp] = first_id, sum_of[warp] = sum;
  __syncthreads();
  for (int w = 0; w < kWarps; ++w) {
    if (w == warp) continue;
    first_id = min(first_id, first_of[w]);
    sum += sum_of[w];
  }
  return {largest, first_id, sum};
}

// The largest logit of a row, as ordered(), in every thread.
__device__ inline uint32_t largest_of_row(const SampleRow& row, const SampleChunk* chunks) {
  uint32_t largest = 0;
  for (int c = int(threadIdx.x % 32); c < row.num_chunks(); c += 32)
    largest = max(largest, chunks[c].largest);
  return __reduce_max_sync(kAllLanes, largest);
}

// The weight of a chunk in its row (ops/draw.h).
__device__ inline uint64_t weight_of(const SampleRow& row, const SampleChunk& chunk, float max) {
  return chunk.sum == 0 ? 0 : weight_of_chunk(chunk.sum, row.below(value_of(chunk.largest), max));
}

}  // namespace nanovllm::cuda
