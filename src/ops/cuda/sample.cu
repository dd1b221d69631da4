// Sampling (ops/sample.h) without a sort of the vocabulary.
//
// scan_kernel reads every row once, a thread block a chunk: its largest logit, and for rows without filters its weight.
// finish_kernel filters where that is wanted (sample_filters.cuh), weighs what is left, and draws a chunk and an id of it. Weights
// are integers, so no order of threads shows.
#include "base/random.h"
#include "ops/cuda/kernels.cuh"
#include "ops/cuda/launch.cuh"
#include "ops/cuda/sample_filters.cuh"

namespace nanovllm::cuda {
namespace {

// Grid: (num_rows, num_chunks). Bound by reading the logits while they come from memory, by about 20 instructions an id where they
// are in the cache.
__global__ void __launch_bounds__(kScanThreads, 12) scan_kernel(SampleParams p, SampleChunk* chunks) {
  start_early();
  const SampleRow row(p, blockIdx.x);
  const SampleChunk chunk = scan_chunk(row, int(blockIdx.y));
  if (threadIdx.x == 0) chunks[int64_t(blockIdx.x) * gridDim.y + blockIdx.y] = chunk;
}

// The weights of a row's chunks, of keys from `lowest` on; a warp a chunk.
__device__ void weigh_chunks(const SampleRow& row, uint64_t lowest, SampleChunk* chunks) {
  const int lane = int(threadIdx.x % 32);
  const float least = value_of(uint32_t(lowest >> 32));
  for (int c = int(threadIdx.x / 32); c < row.num_chunks(); c += int(blockDim.x / 32)) {
    const float max = value_of(chunks[c].largest);
    uint64_t sum = 0;
    if (max >= least)
      row.for_each_of_chunk(c, least, [&](float logit, int id) {
        if (key_of(logit, id) >= lowest) sum += weight_in_chunk(row.below(logit, max));
      });
    sum = sum_of_warp(sum);
    if (lane == 0) chunks[c].sum = sum;
  }
  __syncthreads();
}

// The chunk that is drawn; by one warp.
__device__ int draw_chunk(const SampleRow& row, float max, const Philox4x32& bits,
                          const SampleChunk* chunks) {
  const int lane = int(threadIdx.x % 32), each = (row.num_chunks() + 31) / 32;
  const auto weight = [&](int c) { return c < row.num_chunks() ? weight_of(row, chunks[c], max) : 0; };
  uint64_t sum = 0;
  for (int c = lane * each; c < (lane + 1) * each; ++c) sum += weight(c);
  const uint64_t running = running_sum_of_warp(sum),
                 wanted = part_of(__shfl_sync(kAllLanes, running, 31), bits[0], bits[1]);
  const int owner = __ffs(int(__ballot_sync(kAllLanes, wanted < running))) - 1;
  int chunk = lane * each;
  if (lane == owner)
    for (uint64_t left = wanted - (running - sum); left >= weight(chunk); ++chunk) left -= weight(chunk);
  return __shfl_sync(kAllLanes, chunk, owner);
}

// The id that is drawn of a chunk, in one thread's hands; -1 in the others.
__device__ int draw_id(const SampleRow& row, uint64_t lowest, const Philox4x32& bits, int chunk,
                       float chunk_max) {
  constexpr int kEach = kDrawChunk / kSampleThreads;
  const int first = chunk * kDrawChunk + kEach * int(threadIdx.x);
  uint32_t weights[kEach];
  uint64_t own = 0, total = 0;
#pragma unroll
  for (int i = 0; i < kEach; ++i) {
    const int id = first + i;
    const float logit = id < row.count ? row.logits[id] : -INFINITY;
    const bool kept = id < row.count && key_of(logit, id) >= lowest;
    weights[i] = kept ? weight_in_chunk(row.below(logit, chunk_max)) : 0;
    own += weights[i];
  }
  const uint64_t before = running_sum_of_block(own, total) - own, wanted = part_of(total, bits[2], bits[3]);
  if (wanted < before || wanted >= before + own) return -1;
  int i = 0;
  for (uint64_t left = wanted - before; left >= weights[i]; ++i) left -= weights[i];
  return first + i;
}

// Grid: one block per row. Rows without filters read their chunks and one chunk of logits, others the logits two to four times for
// each filter, as a rule, and once more to weigh what is left.
__global__ void __launch_bounds__(kSampleThreads) finish_kernel(SampleParams p, SampleChunk* all_chunks) {
  start_early();
  const int64_t r = blockIdx.x;
  const SampleRow row(p, r);
  SampleChunk* const chunks = all_chunks + r * row.num_chunks();
  const int lane = int(threadIdx.x % 32);
  const uint32_t largest = largest_of_row(row, chunks);
  const float max = value_of(largest);
  if (!isfinite(max)) {
    if (threadIdx.x == 0) p.out[r] = max == -INFINITY ? kNoTokenLeft : -1;
    return;
  }
  if (row.greedy()) {
    uint32_t id = uint32_t(row.count);
    for (int c = lane; c < row.num_chunks(); c += 32)
      if (chunks[c].largest == largest) id = min(id, chunks[c].first);
    id = __reduce_min_sync(kAllLanes, id);
    if (threadIdx.x == 0) p.out[r] = int(id);
    return;
  }

  __shared__ FilterMemory memory;
  uint64_t lowest = lowest_key();
  if (row.filtered()) {
    lowest = lowest_kept(row, chunks, memory, largest);
    weigh_chunks(row, lowest, chunks);
  }
  const uint64_t seed = uint64_t(uint32_t(p.seeds[2 * r + 1])) << 32 | uint32_t(p.seeds[2 * r]);
  const Philox4x32 bits = philox(seed, {uint32_t(p.positions[r]), uint32_t(p.sample_indices[r]), 0, 0});
  __shared__ int drawn_chunk;
  if (threadIdx.x < 32) {
    const int chunk = draw_chunk(row, max, bits, chunks);
    if (threadIdx.x == 0) drawn_chunk = chunk;
  }
  __syncthreads();
  const int id = draw_id(row, lowest, bits, drawn_chunk, value_of(chunks[drawn_chunk].largest));
  if (id >= 0) p.out[r] = id;
}

}  // namespace

void sample(Context& ctx, const SampleArgs& a) {
  const int64_t num_rows = a.logits.shape[0];
  if (num_rows == 0) return;
  const SampleParams params{.out = a.out.ptr<int32_t>(),
                            .logits = a.logits.ptr<float>(),
                            .temperature = a.temperature.ptr<float>(),
                            .top_p = a.top_p.ptr<float>(),
                            .min_p = a.min_p.ptr<float>(),
                            .top_k = a.top_k.ptr<int32_t>(),
                            .seeds = a.seeds.ptr<int32_t>(),
                            .positions = a.positions.ptr<int32_t>(),
                            .sample_indices = a.sample_indices.ptr<int32_t>(),
                            .logits_stride = a.logits.stride[0],
                            .num_valid = int(a.num_valid_tokens)};
  const Arena::Scope scope(ctx.arena);
  const int64_t num_chunks = num_draw_chunks(a.num_valid_tokens);
  auto* const chunks =
      static_cast<SampleChunk*>(make_sample_chunks(ctx.arena, num_rows, a.num_valid_tokens).data);
  const dim3 grid{unsigned(num_rows), unsigned(num_chunks)};
  launch_early(ctx, scan_kernel, grid, kScanThreads, 0, params, chunks);
  launch_early(ctx, finish_kernel, unsigned(num_rows), kSampleThreads, 0, params, chunks);
  check_launch("sample");
}

}  // namespace nanovllm::cuda
