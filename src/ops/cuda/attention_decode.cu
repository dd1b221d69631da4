// Attention of sequences with one query, by tensor cores (ops/attention.h, the definition for tensor cores), on Hopper.
//
// A thread block works through its span of chunks (attention_plan.cuh). One warp has the copy engine bring keys and values, 64 tokens at a
// time, into a ring of stages, always ahead; four warps compute. Of a chunk each takes a quarter of the keys for the scores, as
// the A operand, the heads of the group being the eight columns, then a quarter of head_dim for the output. Only maxima, sums and
// probabilities pass between them. Where a sequence's chunk 0 is in the span, chunks are joined as they come; of other chunks the
// result is kept, and whoever comes last to the sequence joins them in order. With the ring full, what remains is the time to read HBM.
#include "ops/cuda/attention_definition.cuh"
#include "ops/cuda/attention_span.cuh"
#include "ops/cuda/bulk_copy.cuh"
#include "ops/cuda/kernels.cuh"
#include "ops/cuda/launch.cuh"
#include "ops/cuda/mma.cuh"

namespace nanovllm::cuda {
namespace {

constexpr int kStageTokens = kDecodeStageTokens, kMaxGroup = 8;

// A stage: [head_dim / 64][64 tokens][64] of T, pieces as in the cache.
template <int kHeadDim>
struct Stage {
  static constexpr int kBytes = 2 * kStageTokens * kHeadDim;
  static constexpr int kCount = int(kDecodeSharedBytes) / kBytes;  // in the ring
};

#if __CUDA_ARCH__ >= 900

constexpr int kChunk = kAttentionChunk, kWarps = 4, kComputeThreads = 32 * kWarps;
constexpr int kStagesOfChunk = kChunk / kStageTokens, kHalfBytes = kStageTokens * 128;

// The heads of the group are columns of a result: this lane has columns 2 pair and 2 pair + 1, and both of its rows.
__device__ float max_over_rows(float x) {
  for (int lanes = 4; lanes < 32; lanes *= 2) x = fmaxf(x, __shfl_xor_sync(0xffffffffu, x, lanes));
  return x;
}
__device__ uint32_t sum_over_rows(uint32_t x) {
  for (int lanes = 4; lanes < 32; lanes *= 2) x += __shfl_xor_sync(0xffffffffu, x, lanes);
  return x;
}
__device__ uint32_t transposed(uint32_t matrix) {
  uint32_t r;
  asm volatile("movmatrix.sync.aligned.m8n8.trans.b16 %0, %1;" : "=r"(r) : "r"(matrix));
  return r;
}
__device__ void sync_compute_warps() { asm volatile("bar.sync 1, %0;" ::"n"(kComputeThreads) : "memory"); }

// Offset in a stage of the 16-byte piece `piece` of a token.
__device__ uint32_t piece_offset(int token, int piece) {
  return uint32_t(piece / 8 * kHalfBytes + token * 128 + ((piece % 8) ^ (token % 8)) * 16);
}

template <int kNumStages>
struct Ring {  // where a warp is in it
  int stage = 0;
  uint32_t parity = 0;
  __device__ void advance() {
    if (++stage == kNumStages) stage = 0, parity ^= 1;
  }
};

template <class T, int kHeadDim>
struct Shared {
  alignas(8) uint64_t full[Stage<kHeadDim>::kCount], empty[Stage<kHeadDim>::kCount];
  float2 max[kWarps][4];                 // of a warp's keys, columns in pairs
  uint2 sum[kWarps][4];                  // of quanta
  uint2 probabilities[kChunk / 16][32];  // the B operand of each step
  bool is_last;
};

// The warp that copies. Blocks of fewer than 64 tokens come one by one; behind the last key nothing is read but what fills up
// 16 rows. A sequence's last key is the step's own, so what has it waits for the kernel before; the others are in the cache, and
// the plan is made, since before the step (ops/attention.h).
template <class T, int kHeadDim>
__device__ void copy_keys_and_values(const DecodeParams<T>& p, unsigned char* ring_memory,
                                     Shared<T, kHeadDim>& shared) {
  const AttentionParams<T>& a = p.attention;
  const int lane = threadIdx.x % 32, block_rows = min(a.block_size, kStageTokens),
            blocks_of_stage = kStageTokens / block_rows;
  const uint64_t policy = evict_first_policy();
  Ring<Stage<kHeadDim>::kCount> ring;
  Span span(p);
  const Work& work = span.work;
  bool has_waited = false;
  // Lane i has the block of the chunk's rows from block_rows · i on.
  const auto block_of = [&](int chunk) {
    const int position = chunk * kChunk + lane * block_rows;
    return lane * block_rows < work.tokens_of(chunk)
               ? a.block_table[int64_t(work.sequence.index) * a.max_blocks + position / a.block_size]
               : 0;
  };
  for (; !span.done(); span.advance()) {
    int block = block_of(work.first_chunk);
    for (int chunk = work.first_chunk; chunk < work.end_chunk; ++chunk) {
      const int tokens = work.tokens_of(chunk), num_stages = (tokens + kStageTokens - 1) / kStageTokens;
      const int next_block = chunk + 1 < work.end_chunk ? block_of(chunk + 1) : 0;
      for (int i = 0; i < 2 * num_stages; ++i) {  // keys, then values
        const T* cache = i < num_stages ? a.k : a.v;
        const int first = i % num_stages * kStageTokens,
                  rows = min(kStageTokens, (tokens - first + 15) & ~15);
        if (!has_waited && chunk + 1 == work.num_chunks && first + kStageTokens >= tokens) {
          wait_for_previous();
          has_waited = true;
        }
        if (lane == 0) {
          wait_for_phase(&shared.empty[ring.stage], ring.parity ^ 1);
          expect_bytes(&shared.full[ring.stage], uint32_t(rows * kHeadDim * 2));
        }
        for (int b = 0; b * block_rows < rows; ++b) {
          const int id = __shfl_sync(0xffffffffu, block, i % num_stages * blocks_of_stage + b);
          if (lane != 0) continue;
          const int row = (chunk * kChunk + first + b * block_rows) % a.block_size,
                    count = min(block_rows, rows - b * block_rows);
          const T* from = cache + cache_element<T>(int64_t(id) * a.num_kv_heads + work.kv_head, a.block_size,
                                                   kHeadDim, row, 0);
          const uint32_t to = shared_address(ring_memory) +
                              uint32_t(ring.stage * Stage<kHeadDim>::kBytes + b * block_rows * 128);
          if (count == kStageTokens && a.block_size == kStageTokens) {
            bulk_copy(to, from, Stage<kHeadDim>::kBytes, &shared.full[ring.stage], policy);
            continue;
          }
          for (int half = 0; half < kHeadDim / 64; ++half)
            bulk_copy(to + uint32_t(half * kHalfBytes), from + int64_t(half) * a.block_size * 64,
                      uint32_t(count * 128), &shared.full[ring.stage], policy);
        }
        __syncwarp();
        ring.advance();
      }
      block = next_block;
    }
  }
}

// A lane's part of a state over chunks: columns 2 pair + c, dims 16 i + group_row + 8 h of the warp's quarter at out[i][2 h + c].
template <int kDimTiles>
struct State {
  float max[2] = {-INFINITY, -INFINITY}, sum[2] = {}, out[kDimTiles][4] = {};

  __device__ void add(const float (&m)[2], const float (&l)[2], const float (&o)[kDimTiles][4]) {
    Join j[2];
#pragma unroll
    for (int c = 0; c < 2; ++c) {
      j[c] = join(max[c], m[c]);
      max[c] = j[c].max;
      sum[c] = joined(sum[c], l[c], j[c]);
    }
#pragma unroll
    for (int i = 0; i < kDimTiles; ++i)
#pragma unroll
      for (int e = 0; e < 4; ++e) out[i][e] = joined(out[i][e], o[i][e], j[e % 2]);
  }
};

// Loads that stay where they are written: the compiler would else move each to its use, and wait for one after the other.
__device__ float load_now(const float* from) {
  float x;
  asm volatile("ld.global.cg.f32 %0, [%1];" : "=f"(x) : "l"(from) : "memory");
  return x;
}
__device__ float2 load_now(const float2* from) {
  float2 x;
  asm volatile("ld.global.cg.v2.f32 {%0,%1}, [%2];" : "=f"(x.x), "=f"(x.y) : "l"(from) : "memory");
  return x;
}

// The last to come to a sequence and kv head: joins what is kept of it, in order. A thread has one dim of two heads at a time.
template <class T, int kHeadDim>
__device__ void merge(const DecodeParams<T>& p, const Span& span) {
  constexpr int kAhead = 8, kHeads = 2;  // chunks whose results are on their way
  const AttentionParams<T>& a = p.attention;
  const Work& work = span.work;
  const int first = span.end_of_first_part() - 1;  // where the joined state of those before it is
  const int d = int(threadIdx.x) % kHeadDim;
  const int64_t token = a.cu_seqlens_q[work.sequence.index];
  for (int head = int(threadIdx.x) / kHeadDim * kHeads; head < a.group;
       head += kComputeThreads / kHeadDim * kHeads) {
    float max[kHeads], sum[kHeads] = {}, out[kHeads] = {};
    for (float& m : max) m = -INFINITY;
    for (int begin = first; begin < work.num_chunks; begin += kAhead) {
      float2 state[kAhead][kHeads];
      float o[kAhead][kHeads];
#pragma unroll
      for (int i = 0; i < kAhead; ++i)
#pragma unroll
        for (int h = 0; h < kHeads; ++h) {
          const int64_t result = int64_t(work.slot_of(min(begin + i, work.num_chunks - 1))) * a.group +
                                 min(head + h, a.group - 1);
          state[i][h] = load_now(&p.plan.states[result]);
          o[i][h] = load_now(&p.plan.outs[result * kHeadDim + d]);
        }
#pragma unroll
      for (int i = 0; i < kAhead; ++i) {
        if (begin + i >= work.num_chunks) break;
#pragma unroll
        for (int h = 0; h < kHeads; ++h) {
          const Join j = join(max[h], state[i][h].x);
          max[h] = j.max;
          sum[h] = joined(sum[h], state[i][h].y, j);
          out[h] = joined(out[h], o[i][h], j);
        }
      }
    }
#pragma unroll
    for (int h = 0; h < kHeads; ++h)
      if (head + h < a.group)
        a.out[token * a.out_stride + int64_t(work.kv_head * a.group + head + h) * kHeadDim + d] =
            round_to<T>(__fmul_rn(out[h], __frcp_rn(sum[h])));
  }
}

template <class T, int kHeadDim>
__device__ void attend(const DecodeParams<T>& p, const unsigned char* ring_memory,
                       Shared<T, kHeadDim>& shared) {
  constexpr int kSteps = kHeadDim / 16, kDimTiles = kHeadDim / 64;
  const AttentionParams<T>& a = p.attention;
  const int warp = threadIdx.x / 32, lane = threadIdx.x % 32, row = lane / 4, pair = lane % 4;
  const float scale = scale_of(a.scale);
  const uint32_t memory = shared_address(ring_memory);
  Ring<Stage<kHeadDim>::kCount> ring;
  const auto release = [&] {
    __syncwarp();
    if (lane == 0) arrive(&shared.empty[ring.stage]);
    ring.advance();
  };
  uint32_t q[kSteps][2];  // the B operand: column `row` is a head
  const auto load_q = [&](const Work& work, int32_t token) {
    const bool has_head = row < a.group;
    const T* from =
        a.q + token * a.q_stride + int64_t(work.kv_head * a.group + (has_head ? row : 0)) * a.q_head_stride;
#pragma unroll
    for (int step = 0; step < kSteps; ++step)
#pragma unroll
      for (int half = 0; half < 2; ++half)
        q[step][half] =
            has_head ? *reinterpret_cast<const uint32_t*>(from + 16 * step + 8 * half + 2 * pair) : 0;
  };
  const auto token_of = [&](const Work& work) { return a.cu_seqlens_q[work.sequence.index]; };
  Span next(p);
  const int32_t first_token = next.done() ? 0 : token_of(next.work);
  wait_for_previous();  // for q
  if (!next.done()) load_q(next.work, first_token);
  while (!next.done()) {
    const Span span = next;
    const Work& work = span.work;
    const auto keep = [&](int chunk, const float(&m)[2], const float(&l)[2], const float(&o)[kDimTiles][4]) {
#pragma unroll
      for (int e = 0; e < 4; ++e) {
        const int head = 2 * pair + e % 2;
        if (head >= a.group) continue;
        const int64_t result = int64_t(work.slot_of(chunk)) * a.group + head;
#pragma unroll
        for (int i = 0; i < kDimTiles; ++i)
          p.plan.outs[result * kHeadDim + warp * (kHeadDim / kWarps) + 16 * i + row + e / 2 * 8] = o[i][e];
        if (warp == 0 && row == 0 && e < 2) p.plan.states[result] = make_float2(m[e], l[e]);
      }
    };

    State<kDimTiles> state;
    for (int chunk = work.first_chunk; chunk < work.end_chunk; ++chunk) {
      const int tokens = work.tokens_of(chunk);
      // s[i][2 h + c]: key 64 i + 16 warp + row + 8 h, column 2 pair + c
      float s[kStagesOfChunk][4], m[2] = {-INFINITY, -INFINITY}, l[2];
#pragma unroll
      for (int i = 0; i < kStagesOfChunk; ++i) {
        const int key = i * kStageTokens + 16 * warp;
#pragma unroll
        for (int e = 0; e < 4; ++e) s[i][e] = -INFINITY;
        if (i * kStageTokens >= tokens) continue;
        wait_for_phase(&shared.full[ring.stage], ring.parity);
        if (key < tokens) {
          const uint32_t stage = memory + uint32_t(ring.stage * Stage<kHeadDim>::kBytes);
          float sums[4] = {};
#pragma unroll
          for (int step = 0; step < kSteps; ++step) {
            uint32_t k[4];
            load_4_matrices(k, stage + piece_offset(16 * warp + lane % 16, 2 * step + lane / 16));
            mma<T>(sums, k, q[step][0], q[step][1]);
          }
#pragma unroll
          for (int e = 0; e < 4; ++e) s[i][e] = key + row + e / 2 * 8 < tokens ? sums[e] : -INFINITY;
        }
        release();
      }
      if (chunk + 1 == work.end_chunk) {  // what is next is on its way while this one ends
        next.advance();
        if (!next.done()) load_q(next.work, token_of(next.work));
      }
#pragma unroll
      for (int i = 0; i < kStagesOfChunk; ++i)
#pragma unroll
        for (int e = 0; e < 4; ++e) m[e % 2] = fmaxf(m[e % 2], s[i][e]);
      m[0] = max_over_rows(m[0]);
      m[1] = max_over_rows(m[1]);
      // One buffer each for maxima and probabilities: a warp has read the maxima when it comes to the second barrier, and the
      // probabilities when it comes to the next chunk's first.
      if (row == 0) shared.max[warp][pair] = make_float2(m[0], m[1]);
      sync_compute_warps();
#pragma unroll
      for (int w = 0; w < kWarps; ++w) {
        m[0] = fmaxf(m[0], shared.max[w][pair].x);
        m[1] = fmaxf(m[1], shared.max[w][pair].y);
      }
      m[0] = __fmul_rn(m[0], scale);
      m[1] = __fmul_rn(m[1], scale);
      uint32_t sum[2] = {};
#pragma unroll
      for (int i = 0; i < kStagesOfChunk; ++i) {
        float x[4];
#pragma unroll
        for (int e = 0; e < 4; ++e) {
          x[e] = probability(s[i][e], scale, m[e % 2]);
          sum[e % 2] += quanta(x[e]);
        }
        shared.probabilities[4 * i + warp][lane] =
            make_uint2(transposed(pack<T>(x[0], x[1])), transposed(pack<T>(x[2], x[3])));
      }
      sum[0] = sum_over_rows(sum[0]);
      sum[1] = sum_over_rows(sum[1]);
      if (row == 0) shared.sum[warp][pair] = make_uint2(sum[0], sum[1]);
      sync_compute_warps();
      float o[kDimTiles][4] = {};
#pragma unroll
      for (int i = 0; i < kStagesOfChunk; ++i) {
        if (i * kStageTokens >= tokens) continue;
        wait_for_phase(&shared.full[ring.stage], ring.parity);
        const uint32_t stage = memory + uint32_t(ring.stage * Stage<kHeadDim>::kBytes);
#pragma unroll
        for (int step = 0; step < 4; ++step) {
          const int key = i * kStageTokens + 16 * step;
          if (key >= tokens) continue;  // p = 0 changes no chain
          const uint2 x = shared.probabilities[4 * i + step][lane];
#pragma unroll
          for (int tile = 0; tile < kDimTiles; ++tile) {
            uint32_t v[4];  // rows are dims, columns keys 2 pair, 2 pair + 1, and 8 more on
            load_4_matrices_transposed(
                v, stage + piece_offset(16 * step + lane % 8 + lane / 16 * 8,
                                        warp * (kHeadDim / 32) + 2 * tile + lane / 8 % 2));
            if (key + 16 > tokens) {  // what lies behind the end may be no number
#pragma unroll
              for (int e = 0; e < 4; ++e) {
                const int first = key + 2 * pair + e / 2 * 8;
                if (first + 1 >= tokens) v[e] &= 0x0000ffffu;
                if (first >= tokens) v[e] = 0;
              }
            }
            mma<T>(o[tile], v, x.x, x.y);
          }
        }
        release();
      }
      sum[0] = sum[1] = 0;
#pragma unroll
      for (int w = 0; w < kWarps; ++w) {
        sum[0] += shared.sum[w][pair].x;
        sum[1] += shared.sum[w][pair].y;
      }
      l[0] = from_quanta(sum[0]);
      l[1] = from_quanta(sum[1]);
      if (work.first_chunk == 0)
        state.add(m, l, o);
      else
        keep(chunk, m, l, o);
    }

    if (work.is_whole()) {
      const int64_t token = a.cu_seqlens_q[work.sequence.index];
      const float inverse[2] = {__frcp_rn(state.sum[0]), __frcp_rn(state.sum[1])};
#pragma unroll
      for (int e = 0; e < 4; ++e) {
        const int head = 2 * pair + e % 2;
        if (head >= a.group) continue;
        T* out = a.out + token * a.out_stride + int64_t(work.kv_head * a.group + head) * kHeadDim;
#pragma unroll
        for (int i = 0; i < kDimTiles; ++i)
          out[warp * (kHeadDim / kWarps) + 16 * i + row + e / 2 * 8] =
              round_to<T>(__fmul_rn(state.out[i][e], inverse[e % 2]));
      }
      continue;
    }
    if (work.first_chunk == 0) keep(work.end_chunk - 1, state.max, state.sum, state.out);
    __threadfence();
    sync_compute_warps();
    if (threadIdx.x == 0) {
      int32_t* counted = &p.plan.counted[work.sequence.index * a.num_kv_heads + work.kv_head];
      const int count = work.end_chunk - work.first_chunk;
      shared.is_last = atomicAdd(counted, count) + count == work.num_chunks;
      if (shared.is_last) *counted = 0;
    }
    sync_compute_warps();
    if (shared.is_last) {
      __threadfence();
      merge<T, kHeadDim>(p, span);
    }
  }
}

#endif

template <class T, int kHeadDim>
__global__ void __launch_bounds__(kDecodeThreads, kDecodeBlocksPerSm)
    decode_kernel(const __grid_constant__ DecodeParams<T> p) {
#if __CUDA_ARCH__ >= 900
  extern __shared__ __align__(128) unsigned char ring_memory[];
  __shared__ Shared<T, kHeadDim> shared;
  let_next_start();
  if (threadIdx.x == 0) {
    for (int i = 0; i < Stage<kHeadDim>::kCount; ++i) {
      init_barrier(&shared.full[i], 1);
      init_barrier(&shared.empty[i], kWarps);
    }
    publish_barriers();
  }
  __syncthreads();
  if (threadIdx.x >= kComputeThreads) {
    copy_keys_and_values<T, kHeadDim>(p, ring_memory, shared);
  } else {
    attend<T, kHeadDim>(p, ring_memory, shared);
  }
#endif
}

template <class Body>
void with_kernel(DType dtype, int head_dim, Body&& body) {
  const auto with_head_dim = [&]<class T>(T) {
    head_dim == 64 ? body(T{}, decode_kernel<T, 64>) : body(T{}, decode_kernel<T, 128>);
  };
  dtype == DType::kBF16 ? with_head_dim(Bf16{}) : with_head_dim(F16{});
}

}  // namespace

bool has_decode_kernel(const KvLayer& cache, int num_heads) {
  const bool has_shape = (cache.dtype == DType::kBF16 || cache.dtype == DType::kF16) &&
                         (cache.head_dim == 64 || cache.head_dim == 128) && cache.block_size % 16 == 0 &&
                         (cache.block_size % kStageTokens == 0 || kStageTokens % cache.block_size == 0) &&
                         num_heads / cache.num_kv_heads <= kMaxGroup;
  if (!has_shape) return false;
  bool compiled = false;  // for Hopper; from PTX of an older one the kernel is empty
  with_kernel(cache.dtype, cache.head_dim, [&](auto, auto kernel) {
    cudaFuncAttributes attributes{};
    check(cudaFuncGetAttributes(&attributes, kernel), "attention");
    compiled = attributes.ptxVersion >= 90;
  });
  return compiled;
}

void decode_attention(Context& ctx, const AttentionArgs& a) {
  const DecodePlan plan = decode_plan(a.meta.plan.data, a.meta, a.cache, int(a.q.shape[1]));
  with_kernel(a.cache.dtype, a.cache.head_dim, [&]<class T>(T, auto kernel) {
    check(cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, int(kDecodeSharedBytes)),
          "attention");
    launch_early(ctx, kernel, unsigned(plan.grid), kDecodeThreads, kDecodeSharedBytes,
                 DecodeParams<T>{attention_params<T>(a), plan});
  });
  check_launch("attention");
}

}  // namespace nanovllm::cuda
