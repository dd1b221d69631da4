#include "ops/cuda/attention_plan.cuh"
#include "ops/cuda/kernels.cuh"

namespace nanovllm::cuda {
namespace {

constexpr int kThreads = 1024, kMaxLength = kThreads - 1;  // longer jobs are first, in any order
constexpr int kJobsPerBlock = 4;  // wanted: the more, the more even, the more results to merge
constexpr size_t kMaxResultBytes = size_t{64} << 20;

int num_multiprocessors() {
  int device = 0, count = 0;
  check(cudaGetDevice(&device), "attention");
  check(cudaDeviceGetAttribute(&count, cudaDevAttrMultiProcessorCount, device), "attention");
  return count;
}

struct PlanParams {
  DecodePlan plan;
  const int32_t *cu_seqlens_q, *seq_lens;
  int num_seqs, num_kv_heads;
};

// Sums of all that come before, in this block; scratch: kThreads words.
__device__ int sum_before(int value, int* scratch) {
  const int i = threadIdx.x;
  scratch[i] = value;
  __syncthreads();
  for (int distance = 1; distance < kThreads; distance *= 2) {
    const int before = i >= distance ? scratch[i - distance] : 0;
    __syncthreads();
    scratch[i] += before;
    __syncthreads();
  }
  return scratch[i] - value;
}

// One thread block. Which of equally long jobs comes first is left to chance; no result depends on it.
__global__ void __launch_bounds__(kThreads) plan_kernel(PlanParams p) {
  __shared__ int scratch[kThreads], begin[kThreads];
  __shared__ int num_chunks, num_cut_chunks, next_slot;
  const auto chunks_of = [&](int i) {
    const bool single = p.cu_seqlens_q[i + 1] - p.cu_seqlens_q[i] == 1;
    return single ? (p.seq_lens[i] + kAttentionChunk - 1) / kAttentionChunk : 0;
  };
  if (threadIdx.x == 0) num_chunks = num_cut_chunks = next_slot = 0;
  begin[threadIdx.x] = 0;
  for (int i = threadIdx.x; i < p.num_seqs * p.num_kv_heads; i += kThreads) p.plan.counted[i] = 0;
  __syncthreads();
  int own = 0;
  for (int i = threadIdx.x; i < p.num_seqs; i += kThreads) own += chunks_of(i);
  atomicAdd(&num_chunks, own);
  __syncthreads();
  const int64_t num_units = int64_t(num_chunks) * p.num_kv_heads,
                wanted = int64_t(kJobsPerBlock) * p.plan.grid;
  int most = num_units <= wanted ? 1 : int(num_units / wanted);  // chunks of a job
  own = 0;
  for (int i = threadIdx.x; i < p.num_seqs; i += kThreads) own += chunks_of(i) > most ? chunks_of(i) : 0;
  atomicAdd(&num_cut_chunks, own);
  __syncthreads();
  if (num_cut_chunks > p.plan.num_slots) most = INT32_MAX;  // too many results to keep: none is cut
  const auto for_each_sequence = [&](auto&& body) {
    for (int i = threadIdx.x; i < p.num_seqs; i += kThreads) {
      const int chunks = chunks_of(i);
      if (chunks == 0) continue;
      const int parts = most == INT32_MAX ? 1 : (chunks + most - 1) / most,
                length = (chunks + parts - 1) / parts;
      body(i, chunks, parts, kMaxLength - min(length, kMaxLength));
    }
  };
  for_each_sequence([&](int, int, int parts, int bin) { atomicAdd(&begin[bin], parts); });
  __syncthreads();
  const int before = sum_before(begin[threadIdx.x], scratch);
  if (threadIdx.x == kThreads - 1) *p.plan.num_jobs = before + begin[threadIdx.x];
  begin[threadIdx.x] = before;
  __syncthreads();
  for_each_sequence([&](int i, int chunks, int parts, int bin) {
    const int first = atomicAdd(&begin[bin], parts), slot = parts > 1 ? atomicAdd(&next_slot, chunks) : -1;
    for (int part = 0; part < parts; ++part) p.plan.jobs[first + part] = {i, part, parts, slot};
  });
}

}  // namespace

DecodePlan decode_plan(void* memory, const AttentionMeta& meta, const KvLayer& cache, int num_heads) {
  const int64_t num_seqs = meta.seq_lens.shape[0], heads = cache.num_kv_heads, head_dim = cache.head_dim;
  DecodePlan plan{};
  plan.grid = kDecodeBlocksPerSm * num_multiprocessors();
  // Jobs of `most` chunks are at most twice as many as wanted, as most is rounded down; and each sequence's last is shorter.
  plan.max_jobs = int(num_seqs + 2 * kJobsPerBlock * plan.grid / heads + 1);
  const int64_t slot_bytes = num_heads * (head_dim + 2) * int64_t(sizeof(float));
  const int64_t most_chunks =
      num_seqs * ((meta.block_table.shape[1] * cache.block_size + kAttentionChunk - 1) / kAttentionChunk);
  plan.num_slots = std::min(most_chunks, int64_t(kMaxResultBytes) / slot_bytes);
  auto* at = static_cast<std::byte*>(memory);
  const auto take = [&]<class Element>(Element*& array, int64_t count) {
    array = reinterpret_cast<Element*>(at + plan.bytes);
    plan.bytes += (size_t(count) * sizeof(Element) + 127) / 128 * 128;
  };
  take(plan.num_jobs, 1);
  take(plan.jobs, plan.max_jobs);
  take(plan.counted, num_seqs * heads);
  take(plan.states, plan.num_slots * num_heads);
  take(plan.outs, plan.num_slots * num_heads * head_dim);
  return plan;
}

size_t attention_plan_bytes(const AttentionMeta& meta, const KvLayer& cache, int num_heads) {
  return has_decode_kernel(cache, num_heads) ? decode_plan(nullptr, meta, cache, num_heads).bytes : 0;
}

void plan_attention(Context& ctx, const PlanAttentionArgs& a) {
  const int num_seqs = int(a.meta.seq_lens.shape[0]);
  plan_kernel<<<1, kThreads, 0, stream_of(ctx)>>>(
      {.plan = decode_plan(a.plan.data, a.meta, a.cache, a.num_heads),
       .cu_seqlens_q = a.meta.cu_seqlens_q.ptr<int32_t>(),
       .seq_lens = a.meta.seq_lens.ptr<int32_t>(),
       .num_seqs = num_seqs,
       .num_kv_heads = a.cache.num_kv_heads});
  check_launch("plan_attention");
}

}  // namespace nanovllm::cuda
