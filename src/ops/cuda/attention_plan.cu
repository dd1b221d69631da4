#include "ops/cuda/attention_plan.cuh"
#include "ops/cuda/kernels.cuh"

namespace nanovllm::cuda {
namespace {

constexpr int kThreads = 512;
constexpr size_t kMaxResultBytes = size_t{64} << 20;

struct PlanParams {
  DecodePlan plan;
  const int32_t *cu_seqlens_q, *seq_lens;
  int num_seqs, num_kv_heads;
};

// Sums of both values over all threads before this one, and over all.
struct Sums {
  int2 before, all;
};
__device__ Sums sums_of(int2 value) {
  __shared__ int2 warp_sums[kThreads / 32];
  const int lane = threadIdx.x % 32, warp = threadIdx.x / 32;
  int2 sum = value;
  for (int distance = 1; distance < 32; distance *= 2) {
    const int x = __shfl_up_sync(0xffffffffu, sum.x, distance),
              y = __shfl_up_sync(0xffffffffu, sum.y, distance);
    if (lane >= distance) sum.x += x, sum.y += y;
  }
  __syncthreads();  // the last call's sums have been read
  if (lane == 31) warp_sums[warp] = sum;
  __syncthreads();
  Sums sums{{sum.x - value.x, sum.y - value.y}, {0, 0}};
  for (int w = 0; w < kThreads / 32; ++w) {
    if (w == warp) sums.before.x += sums.all.x, sums.before.y += sums.all.y;
    sums.all.x += warp_sums[w].x;
    sums.all.y += warp_sums[w].y;
  }
  return sums;
}

// Behind the plan, an ordinary launch: all that comes next may read the plan, and what was there before it, ahead of its wait
// (launch.cuh).
__global__ void settle_kernel() {}

// One thread block.
__global__ void __launch_bounds__(kThreads) plan_kernel(PlanParams p) {
  for (int i = threadIdx.x; i < p.num_seqs * p.num_kv_heads; i += kThreads) p.plan.counted[i] = 0;
  int2 total{0, 0};  // pieces, slots
  for (int first = 0; first < p.num_seqs; first += kThreads) {
    const int i = first + threadIdx.x;
    const bool single = i < p.num_seqs && p.cu_seqlens_q[i + 1] - p.cu_seqlens_q[i] == 1;
    const int num_keys = single ? p.seq_lens[i] : 0;
    const Sums sums = sums_of({(num_keys + kPieceKeys - 1) / kPieceKeys * p.num_kv_heads,
                               (num_keys + kAttentionChunk - 1) / kAttentionChunk * p.num_kv_heads});
    if (i < p.num_seqs) p.plan.sequences[i] = {total.x + sums.before.x, total.y + sums.before.y, num_keys, i};
    total.x += sums.all.x;
    total.y += sums.all.y;
  }
  const int most_uncut = total.y > p.plan.num_slots ? INT_MAX  // more results than can be kept
                                                    : kShortChunks;
  if (threadIdx.x == 0) *p.plan.num_pieces = total.x;
  __syncthreads();
  for (int span = threadIdx.x; span <= p.plan.grid; span += kThreads) {
    if (span == p.plan.grid || total.x == 0) {
      p.plan.starts[span] = {{total.x, 0, 0, p.num_seqs}, 0, 0};
      continue;
    }
    const int begin = p.plan.begin_of(span, total.x);
    int index = last_at_or_before(p.num_seqs, begin, [&](int i) { return p.plan.sequences[i].first_piece; });
    PlannedSequence sequence = p.plan.sequences[index];
    const int pieces = (sequence.num_keys + kPieceKeys - 1) / kPieceKeys,
              offset = begin - sequence.first_piece;
    int kv_head = offset / pieces, chunk = (offset % pieces + kChunkPieces - 1) / kChunkPieces;
    if (chunk * kChunkPieces >= pieces ||
        (chunk > 0 && (pieces + kChunkPieces - 1) / kChunkPieces <= most_uncut)) {
      chunk = 0;
      if (++kv_head == p.num_kv_heads) {
        kv_head = 0;
        do ++index;
        while (index < p.num_seqs && p.plan.sequences[index].num_keys == 0);
        sequence = index < p.num_seqs ? p.plan.sequences[index] : PlannedSequence{total.x, 0, 0, index};
      }
    }
    p.plan.starts[span] = {sequence, kv_head, chunk};
  }
}

}  // namespace

DecodePlan decode_plan(void* memory, const AttentionMeta& meta, const KvLayer& cache, int num_heads) {
  const int64_t num_seqs = meta.seq_lens.shape[0], heads = cache.num_kv_heads, head_dim = cache.head_dim;
  const int64_t group = num_heads / heads;
  DecodePlan plan{};
  plan.grid = kDecodeBlocksPerSm * count_multiprocessors();
  const int64_t most_chunks = (meta.block_table.shape[1] * cache.block_size + kAttentionChunk - 1) /
                              kAttentionChunk * num_seqs * heads;
  plan.num_slots =
      std::min(most_chunks, int64_t(kMaxResultBytes) / (group * (head_dim + 2) * int64_t(sizeof(float))));
  auto* at = static_cast<std::byte*>(memory);
  const auto take = [&]<class Element>(Element*& array, int64_t count) {
    array = reinterpret_cast<Element*>(at + plan.bytes);
    plan.bytes += (size_t(count) * sizeof(Element) + 127) / 128 * 128;
  };
  take(plan.num_pieces, 1);
  take(plan.starts, plan.grid + 1);
  take(plan.sequences, num_seqs);
  take(plan.counted, num_seqs * heads);
  take(plan.states, plan.num_slots * group);
  take(plan.outs, plan.num_slots * group * head_dim);
  return plan;
}

size_t attention_plan_bytes(const AttentionMeta& meta, const KvLayer& cache, int num_heads) {
  return has_decode_kernel(cache, num_heads) ? decode_plan(nullptr, meta, cache, num_heads).bytes : 0;
}

void plan_attention(Context& ctx, const PlanAttentionArgs& a) {
  plan_kernel<<<1, kThreads, 0, stream_of(ctx)>>>(
      {.plan = decode_plan(a.plan.data, a.meta, a.cache, a.num_heads),
       .cu_seqlens_q = a.meta.cu_seqlens_q.ptr<int32_t>(),
       .seq_lens = a.meta.seq_lens.ptr<int32_t>(),
       .num_seqs = int(a.meta.seq_lens.shape[0]),
       .num_kv_heads = a.cache.num_kv_heads});
  settle_kernel<<<1, 32, 0, stream_of(ctx)>>>();
  check_launch("plan_attention");
}

}  // namespace nanovllm::cuda
