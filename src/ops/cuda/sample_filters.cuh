// The filters of a row (ops/sample.h), by one thread block: what they keep are the keys from a threshold on.
#pragma once

#include "ops/cuda/sample.cuh"

namespace nanovllm::cuda {

// The parts that a range of keys is counted in, and keys that are few enough to be sorted.
constexpr int kFilterBins = 1024, kFilterList = 2048;

struct FilterMemory {                            // of a thread block, shared
  uint32_t low[kFilterBins], high[kFilterBins];  // halves of sums: shared memory adds 32 bits by itself
  uint32_t counts[kFilterBins];
  uint64_t list[kFilterList];
  int list_size;
  uint64_t found, above;
  uint32_t found_count;
};

// The keys of memory.list, largest first. Bitonic: Batcher 1968, "Sorting networks and their applications".
__device__ inline void sort_list(FilterMemory& memory) {
  int size = 2;
  while (size < memory.list_size) size *= 2;
  for (int i = memory.list_size + int(threadIdx.x); i < size; i += int(blockDim.x)) memory.list[i] = 0;
  for (int width = 2; width <= size; width *= 2)
    for (int distance = width / 2; distance > 0; distance /= 2) {
      __syncthreads();
      for (int i = int(threadIdx.x); i < size / 2; i += int(blockDim.x)) {
        const int a = 2 * i - i % distance, b = a + distance;
        const uint64_t first = memory.list[a], second = memory.list[b];
        if ((a & width) == 0 ? first < second : first > second)
          memory.list[a] = second, memory.list[b] = first;
      }
    }
  __syncthreads();
}

// With amount(logit) of every key of [from, to]: the largest key such that the amounts from it on reach wanted(their sum) > 0; 0 if
// all together do not. Sums are compared as doubles, as on the CPU; amounts of zero cannot be the first to reach it and are passed
// over. Counts the keys in parts of the range, and looks into the part that reaches it in the same way until its keys are few.
template <class Amount, class Wanted>
__device__ uint64_t find_threshold(const SampleRow& row, const SampleChunk* chunks, FilterMemory& memory,
                                   uint64_t from, uint64_t to, Amount amount, Wanted wanted) {
  double goal = 0;
  uint64_t above = 0;  // the sum of what is above the range
  const auto for_each_key = [&](auto&& body) {
    const float least = value_of(uint32_t(from >> 32));
    row.for_each(chunks, least, [&](float logit, int id) {
      const uint64_t key = key_of(logit, id);
      if (key < from || key > to) return;
      if (const uint64_t added = amount(logit)) body(key, added);
    });
  };
  for (bool first = true;; first = false) {
    int shift = 0;
    while ((to - from) >> shift >= kFilterBins) ++shift;
    for (int bin = int(threadIdx.x); bin < kFilterBins; bin += int(blockDim.x))
      memory.low[bin] = memory.high[bin] = memory.counts[bin] = 0;
    if (threadIdx.x == 0) memory.list_size = 0, memory.found_count = 0;
    __syncthreads();
    for_each_key([&](uint64_t key, uint64_t added) {
      const int bin = int((to - key) >> shift);
      const uint32_t half = uint32_t(added), before = atomicAdd(&memory.low[bin], half);
      const uint32_t carry = uint32_t(added >> 32) + (before + half < before ? 1 : 0);
      if (carry > 0) atomicAdd(&memory.high[bin], carry);
      atomicAdd(&memory.counts[bin], 1u);
    });
    __syncthreads();
    static_assert(kFilterBins == kSampleThreads);
    const int bin = int(threadIdx.x);
    const uint64_t sum = uint64_t(memory.high[bin]) << 32 | memory.low[bin];
    uint64_t total = 0;
    const uint64_t running = running_sum_of_block(sum, total);
    if (first) goal = wanted(total);
    if (double(above + running) >= goal && double(above + running - sum) < goal) {
      memory.found = to - (uint64_t(bin) << shift);
      memory.above = above + running - sum;
      memory.found_count = memory.counts[bin];
    }
    __syncthreads();
    const uint32_t count = memory.found_count;
    if (count == 0) {  // in the first round only: then a part reaches it
      __syncthreads();
      return 0;
    }
    to = memory.found;
    above = memory.above;
    from = max(from, to - ((uint64_t{1} << shift) - 1));
    __syncthreads();
    if (count <= kFilterList) break;
  }
  for_each_key([&](uint64_t key, uint64_t) { memory.list[atomicAdd(&memory.list_size, 1)] = key; });
  __syncthreads();
  sort_list(memory);
  constexpr int kEach = kFilterList / kSampleThreads;
  uint64_t amounts[kEach], own = 0, total = 0;
#pragma unroll
  for (int i = 0; i < kEach; ++i) {
    const int at = kEach * int(threadIdx.x) + i;
    amounts[i] = at < memory.list_size ? amount(value_of(uint32_t(memory.list[at] >> 32))) : 0;
    own += amounts[i];
  }
  above += running_sum_of_block(own, total) - own;
#pragma unroll
  for (int i = 0; i < kEach; ++i) {
    if (double(above) < goal && double(above + amounts[i]) >= goal)
      memory.found = memory.list[kEach * int(threadIdx.x) + i];
    above += amounts[i];
  }
  __syncthreads();
  return memory.found;
}

// The least ordered() of a logit that is no further below the largest: below() rises with the logit, so halving finds it.
__device__ inline uint32_t least_ordered(const SampleRow& row, uint32_t largest, float least_below) {
  const float max = value_of(largest);
  uint32_t less = ordered(-INFINITY), found = largest;
  while (found - less > 1) {
    const uint32_t middle = less + (found - less) / 2;
    (row.below(value_of(middle), max) < least_below ? less : found) = middle;
  }
  return found;
}

// A key that at least top_k keys reach: the top_k-th of the chunks' largest logits, where there are so many.
__device__ inline uint64_t bound_of_top_k(const SampleRow& row, FilterMemory& memory,
                                          const SampleChunk* chunks) {
  if (threadIdx.x == 0) memory.found = 0;
  __syncthreads();
  const auto largest = [&](int c) { return uint64_t(chunks[c].largest) << 32 | (0xFFFFFFFFu - uint32_t(c)); };
  for (int c = int(threadIdx.x); c < row.num_chunks() && row.top_k <= row.num_chunks();
       c += int(blockDim.x)) {
    int rank = 1;
    for (int other = 0; other < row.num_chunks(); ++other) rank += largest(other) > largest(c);
    if (rank == row.top_k) memory.found = uint64_t(chunks[c].largest) << 32;
  }
  __syncthreads();
  const uint64_t bound = memory.found;
  __syncthreads();
  return bound;
}

// Above all keys of a row with this largest logit.
__device__ inline uint64_t highest_key(uint32_t largest) { return uint64_t(largest) << 32 | 0xFFFFFFFFu; }

// The top_k-th of the keys from `lowest` on; 0: there are fewer.
__device__ inline uint64_t threshold_of_top_k(const SampleRow& row, const SampleChunk* chunks,
                                              FilterMemory& memory, uint64_t lowest, uint32_t largest) {
  const uint64_t from = max(lowest, bound_of_top_k(row, memory, chunks));
  return find_threshold(
      row, chunks, memory, from, highest_key(largest), [](float) { return uint64_t{1}; },
      [&](uint64_t) { return double(row.top_k); });
}

// What the filters of a row leave: keys from this one on.
__device__ inline uint64_t lowest_kept(const SampleRow& row, const SampleChunk* chunks, FilterMemory& memory,
                                       uint32_t largest) {
  uint64_t lowest =
      row.cuts_min_p() ? uint64_t(least_ordered(row, largest, log_f32(row.min_p))) << 32 : lowest_key();
  if (row.cuts_k()) lowest = max(lowest, threshold_of_top_k(row, chunks, memory, lowest, largest));
  if (!row.cuts_p()) return lowest;
  const uint64_t from =
      max(lowest, uint64_t(least_ordered(row, largest, -22.5f)) << 32);  // 2^32 e^-22.5 < 0.8
  return max(lowest, find_threshold(
                         row, chunks, memory, from, highest_key(largest),
                         [&](float logit) { return weight_in_row(row.below(logit, value_of(largest))); },
                         [&](uint64_t total) { return wanted_of_top_p(row.top_p, total); }));
}

}  // namespace nanovllm::cuda
