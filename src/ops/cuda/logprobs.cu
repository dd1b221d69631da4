// ops/logprobs.h: a pass over all chunks of the rows that want them, then over those chunks that have the likeliest ids.
#include "ops/cuda/kernels.cuh"
#include "ops/cuda/launch.cuh"
#include "ops/cuda/sample_filters.cuh"

namespace nanovllm::cuda {
namespace {

struct TopParams {
  const float* logits;
  const int32_t* rows;
  float* norms;
  int32_t* top_ids;
  float* top_logprobs;
  int64_t logits_stride, norms_stride, ids_stride, logprobs_stride;
  int vocab_size, num_top;

  __device__ SampleRow row(int64_t i, int top_k) const {
    return SampleRow(logits + rows[i] * logits_stride, vocab_size, top_k);
  }
};

// Grid: (num_wanted, num_chunks).
__global__ void __launch_bounds__(kScanThreads, 12) scan_kernel(TopParams p, SampleChunk* chunks) {
  start_early();
  const SampleRow row = p.row(blockIdx.x, 0);  // all of it is weighed
  const SampleChunk chunk = scan_chunk(row, int(blockIdx.y));
  if (threadIdx.x == 0) chunks[int64_t(blockIdx.x) * gridDim.y + blockIdx.y] = chunk;
}

// The ids of memory.list, and behind them as many of -infinity as are wanted.
__device__ void fill_up(const SampleRow& row, FilterMemory& memory, int num_top) {
  for (int id = 0; id < row.count && memory.list_size < num_top; ++id)
    if (row.logits[id] == -INFINITY) memory.list[memory.list_size++] = key_of(-INFINITY, id);
}

// Grid: num_wanted.
__global__ void __launch_bounds__(kSampleThreads) top_kernel(TopParams p, const SampleChunk* all_chunks) {
  start_early();
  const int64_t i = blockIdx.x;
  const SampleRow row = p.row(i, p.num_top);
  const SampleChunk* const chunks = all_chunks + i * row.num_chunks();
  const uint32_t largest = largest_of_row(row, chunks);
  const float max = value_of(largest);
  uint64_t sum = 0;
  for (int c = int(threadIdx.x % 32); c < row.num_chunks(); c += 32) sum += weight_of(row, chunks[c], max);
  sum = sum_of_warp(sum);
  const bool is_good = isfinite(max);
  const float norm = is_good ? max : NAN, log_sum = is_good ? log_of_weights(sum) : NAN;
  if (threadIdx.x == 0) p.norms[i * p.norms_stride] = norm, p.norms[i * p.norms_stride + 1] = log_sum;
  const int k = int(threadIdx.x);
  if (!is_good) {
    if (k < p.num_top) p.top_ids[i * p.ids_stride + k] = k, p.top_logprobs[i * p.logprobs_stride + k] = NAN;
    return;
  }
  if (p.num_top == 0) return;

  __shared__ FilterMemory memory;
  const uint64_t lowest = ::max(lowest_key(), threshold_of_top_k(row, chunks, memory, lowest_key(), largest));
  __syncthreads();
  if (threadIdx.x == 0) memory.list_size = 0;
  __syncthreads();
  row.for_each(chunks, value_of(uint32_t(lowest >> 32)), [&](float logit, int id) {
    const uint64_t key = key_of(logit, id);
    if (key >= lowest) memory.list[atomicAdd(&memory.list_size, 1)] = key;
  });
  __syncthreads();
  if (threadIdx.x == 0) fill_up(row, memory, p.num_top);
  __syncthreads();
  sort_list(memory);
  if (k >= p.num_top) return;
  const uint64_t key = memory.list[k];
  p.top_ids[i * p.ids_stride + k] = int32_t(0xFFFFFFFFu - uint32_t(key));
  p.top_logprobs[i * p.logprobs_stride + k] = (value_of(uint32_t(key >> 32)) - norm) - log_sum;
}

struct TokenParams {
  const float* logits;
  const int32_t *rows, *ids;
  const float* norms;
  float* out;
  int64_t logits_stride, norms_stride, out_stride;
  int num_wanted;
};

__global__ void token_kernel(TokenParams p) {
  start_early();
  const int i = int(blockIdx.x * blockDim.x + threadIdx.x);
  if (i >= p.num_wanted) return;
  const int32_t row = p.rows[i], id = p.ids[row];
  const float* norms = p.norms + i * p.norms_stride;
  p.out[i * p.out_stride] = id < 0 ? NAN : (p.logits[row * p.logits_stride + id] - norms[0]) - norms[1];
}

}  // namespace

void top_logprobs(Context& ctx, const TopLogprobsArgs& a) {
  const int64_t num_wanted = a.rows.shape[0], vocab_size = a.logits.shape[1];
  if (num_wanted == 0) return;
  const TopParams params{.logits = a.logits.ptr<float>(),
                         .rows = a.rows.ptr<int32_t>(),
                         .norms = a.norms.ptr<float>(),
                         .top_ids = a.top_ids.ptr<int32_t>(),
                         .top_logprobs = a.top_logprobs.ptr<float>(),
                         .logits_stride = a.logits.stride[0],
                         .norms_stride = a.norms.stride[0],
                         .ids_stride = a.top_ids.stride[0],
                         .logprobs_stride = a.top_logprobs.stride[0],
                         .vocab_size = int(vocab_size),
                         .num_top = int(a.top_ids.shape[1])};
  const Arena::Scope scope(ctx.arena);
  auto* const chunks = static_cast<SampleChunk*>(make_sample_chunks(ctx.arena, num_wanted, vocab_size).data);
  const dim3 grid{unsigned(num_wanted), unsigned(num_draw_chunks(vocab_size))};
  launch_early(ctx, scan_kernel, grid, kScanThreads, 0, params, chunks);
  launch_early(ctx, top_kernel, unsigned(num_wanted), kSampleThreads, 0, params, chunks);
  check_launch("top_logprobs");
}

void token_logprobs(Context& ctx, const TokenLogprobsArgs& a) {
  const int64_t num_wanted = a.rows.shape[0];
  if (num_wanted == 0) return;
  launch_early(ctx, token_kernel, blocks_for(num_wanted, 128), 128, 0,
               TokenParams{.logits = a.logits.ptr<float>(),
                           .rows = a.rows.ptr<int32_t>(),
                           .ids = a.ids.ptr<int32_t>(),
                           .norms = a.norms.ptr<float>(),
                           .out = a.out.ptr<float>(),
                           .logits_stride = a.logits.stride[0],
                           .norms_stride = a.norms.stride[0],
                           .out_stride = a.out.stride[0],
                           .num_wanted = int(num_wanted)});
  check_launch("token_logprobs");
}

}  // namespace nanovllm::cuda
