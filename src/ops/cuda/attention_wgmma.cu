// Attention of sequences with many queries, by Hopper's warpgroup products (ops/attention.h, the definition for tensor cores).
//
// A thread block takes 128 query rows of one kv head and sequence (token by token, heads of the group inside), one on each
// multiprocessor. Two warps have the copy engine bring keys and values, a chunk of 128 at a time, into rings; two warpgroups compute, 64
// rows each. Scores of the next chunk are under way before the output of this one, so that exponentials run beside products, and
// the warpgroups take turns at the tensor cores. A chunk's output, which must be joined, comes in two halves of 64 dims: scores,
// probabilities, one half and the joined output are what registers can hold. The limit is the exponentials between the products.
#include "ops/cuda/attention_common.cuh"
#include "ops/cuda/attention_definition.cuh"
#include "ops/cuda/kernels.cuh"
#include "ops/cuda/mma.cuh"
#include "ops/cuda/wgmma.cuh"

namespace nanovllm::cuda {
namespace {

constexpr int kHeadDim = 128, kChunk = kAttentionChunk;
constexpr int kWarpgroup = 128, kThreads = 3 * kWarpgroup;
constexpr int kWarpRows = 16, kWarpgroupRows = 64, kTileRows = 2 * kWarpgroupRows;
constexpr int kMostPieceRows = 64;  // of a block, that are copied at once
// Rows of 64 dims; [2][rows][64] of T are keys, values or queries.
constexpr int kRowBytes = 128, kHalfBytes = kChunk * kRowBytes, kQueryHalfBytes = kWarpgroupRows * kRowBytes;

struct Tile {
  int seq, kv_head;
  int first_row, num_rows;  // of the sequence's query rows; none: no tile
  int first_position;       // of the sequence's queries
  int num_keys;             // that the last row sees
};

// Chunks on their way: a barrier says that a slot is full, another that all warps have read it.
template <int kSlots>
struct alignas(1024) Ring {
  unsigned char slots[kSlots][2 * kHalfBytes];
  uint64_t full[kSlots], empty[kSlots];
};
struct Shared {
  alignas(1024) unsigned char q[2][2 * kQueryHalfBytes];
  Ring<3> keys;
  Ring<2> values;
  Tile tile;
};

#ifdef __CUDA_ARCH_FEAT_SM90_ALL

constexpr int kCopyRegisters = 24, kComputeRegisters = 240;

template <int kSlots>
struct Place {  // where a warp is in a ring
  int slot = 0;
  uint32_t parity = 0;
  __device__ void advance() {
    if (++slot == kSlots) slot = 0, parity ^= 1;
  }
};

// ---- tiles ----

// Rows behind the last are the last again, but not stored.
__device__ int query_row_of(const Tile& tile, int row) {
  return tile.first_row + min(row, tile.num_rows - 1);
}
__device__ int last_key_of(const Tile& tile, int row, int group) {
  return tile.first_position + query_row_of(tile, row) / group;
}

template <class T>
__device__ int num_tiles(const AttentionParams<T>& p, int num_queries) {
  if (p.singles_are_planned && num_queries == 1) return 0;
  return (num_queries * p.group + kTileRows - 1) / kTileRows;
}

// Of this thread block, by one warp: kv heads side by side, of a sequence the last tiles first, which have most to do.
template <class T>
__device__ Tile find_tile(const AttentionParams<T>& p) {
  constexpr int kLaneSequences = 8;
  const int lane = threadIdx.x % 32;
  Tile tile{};
  tile.kv_head = int(blockIdx.x) % p.num_kv_heads;
  int index = int(blockIdx.x) / p.num_kv_heads;
  for (int first = 0; first < p.num_seqs; first += 32 * kLaneSequences) {
    int begins[kLaneSequences + 1], tiles = 0;
#pragma unroll
    for (int i = 0; i <= kLaneSequences; ++i)
      begins[i] = p.cu_seqlens_q[min(first + lane * kLaneSequences + i, p.num_seqs)];
#pragma unroll
    for (int i = 0; i < kLaneSequences; ++i) tiles += num_tiles(p, begins[i + 1] - begins[i]);
    int sum = tiles;  // up to this lane
    for (int distance = 1; distance < 32; distance *= 2) {
      const int before = __shfl_up_sync(0xffffffffu, sum, distance);
      if (lane >= distance) sum += before;
    }
    const uint32_t reach = __ballot_sync(0xffffffffu, sum > index);
    if (reach == 0) {
      index -= __shfl_sync(0xffffffffu, sum, 31);
      continue;
    }
    const int owner = __ffs(int(reach)) - 1;
    index -= __shfl_sync(0xffffffffu, sum - tiles, owner);
    tile.seq = first + owner * kLaneSequences;
    int num_queries = 0, count = 0;
    for (;; ++tile.seq, index -= count) {
      num_queries = p.cu_seqlens_q[tile.seq + 1] - p.cu_seqlens_q[tile.seq];
      count = num_tiles(p, num_queries);
      if (index < count) break;
    }
    tile.first_row = (count - 1 - index) * kTileRows;
    tile.num_rows = min(kTileRows, num_queries * p.group - tile.first_row);
    tile.first_position = p.seq_lens[tile.seq] - num_queries;
    tile.num_keys = last_key_of(tile, tile.num_rows - 1, p.group) + 1;
    if (tile.num_keys <= 0) tile.num_rows = 0;
    break;
  }
  return tile;
}

// ---- the warps that copy ----

// Keys or values of a tile; kZeros: with zeros behind the last of them, which products of p = 0 need. A lane has a half of dims of a
// piece of a block.
template <class T, bool kZeros, int kSlots>
__device__ void copy_chunks(const AttentionParams<T>& p, const Tile& tile, const T* cache,
                            Ring<kSlots>& ring) {
  uint64_t policy;  // others read them too
  asm volatile("createpolicy.fractional.L2::evict_normal.b64 %0, 1.0;" : "=l"(policy));
  const int lane = threadIdx.x % 32, half = lane % 2, piece_rows = min(p.block_size, kMostPieceRows),
            first_row = lane / 2 * piece_rows, num_keys = tile.num_keys;
  const int32_t* table = p.block_table + int64_t(tile.seq) * p.max_blocks;
  const auto rows_at = [&](int start) {  // of this lane's piece
    return first_row < kChunk ? min(piece_rows, num_keys - start - first_row) : 0;
  };
  const auto block_at = [&](int start) {
    return rows_at(start) > 0 ? table[(start + first_row) / p.block_size] : 0;
  };
  Place<kSlots> place;
  int block = block_at(0);
  for (int start = 0; start < num_keys; start += kChunk) {
    const int next_block = block_at(start + kChunk), rows = min(kChunk, num_keys - start);
    uint64_t* full = &ring.full[place.slot];
    unsigned char* slot = ring.slots[place.slot];
    wait_for_phase(&ring.empty[place.slot], place.parity ^ 1);
    if (kZeros && rows < kChunk) {
      for (int i = rows * 8 + lane; i < kChunk * 8; i += 32)
        for (int h = 0; h < 2; ++h)
          *reinterpret_cast<uint4*>(slot + h * kHalfBytes + i * 16) = make_uint4(0, 0, 0, 0);
      publish_writes();
    }
    __syncwarp();
    if (lane == 0) expect_bytes(full, uint32_t(rows * kHeadDim * 2));
    __syncwarp();
    if (const int count = rows_at(start); count > 0) {
      const int row = (start + first_row) % p.block_size;
      bulk_copy(shared_address(slot + half * kHalfBytes + first_row * kRowBytes),
                cache + cache_element<T>(int64_t(block) * p.num_kv_heads + tile.kv_head, p.block_size,
                                         kHeadDim, row, half * 64),
                uint32_t(count * kRowBytes), full, policy);
    }
    block = next_block;
    place.advance();
  }
}

// ---- the warpgroups that compute ----

// Named barriers: the turns of both, and each for itself.
constexpr int kTurnBarrier = 1, kWarpgroupBarrier = 3;
__device__ void wait_for_turn(int warpgroup) {
  asm volatile("bar.sync %0, %1;" ::"r"(kTurnBarrier + warpgroup), "n"(2 * kWarpgroup) : "memory");
}
__device__ void pass_turn(int warpgroup) {
  asm volatile("bar.arrive %0, %1;" ::"r"(kTurnBarrier + 1 - warpgroup), "n"(2 * kWarpgroup) : "memory");
}
__device__ void sync_warpgroup(int warpgroup) {
  asm volatile("bar.sync %0, %1;" ::"r"(kWarpgroupBarrier + warpgroup), "n"(kWarpgroup) : "memory");
}

// The rows of a warpgroup, pieces at the places that the products want.
template <class T>
__device__ void load_queries(const AttentionParams<T>& p, const Tile& tile, int warpgroup, unsigned char* q) {
  constexpr int kPieces = kHeadDim / 8;
  const T* first = p.q + p.cu_seqlens_q[tile.seq] * p.q_stride + tile.kv_head * p.group * p.q_head_stride;
#pragma unroll
  for (int i = 0; i < kWarpgroupRows * kPieces / kWarpgroup; ++i) {
    const int row = int(threadIdx.x % kWarpgroup) / kPieces + i * (kWarpgroup / kPieces),
              piece = int(threadIdx.x) % kPieces;
    const int query_row = query_row_of(tile, warpgroup * kWarpgroupRows + row);
    const T* from =
        first + query_row / p.group * p.q_stride + query_row % p.group * p.q_head_stride + piece * 8;
    *reinterpret_cast<uint4*>(q + piece / 8 * kQueryHalfBytes + row * kRowBytes +
                              (piece % 8 ^ row % 8) * 16) = *reinterpret_cast<const uint4*>(from);
  }
  publish_writes();
  sync_warpgroup(warpgroup);
}

// A thread's part of 64 rows: element 4 n + 2 h + c of an array is row 16 warp + g + 8 h, column 8 n + 2 j + c, lane 4 g + j.
template <class T>
struct Rows {
  float s[kChunk / 2];                     // scores of a chunk, then probabilities
  uint32_t probabilities[kChunk / 16][4];  // rounded to T, the A operand
  float max[2] = {-INFINITY, -INFINITY}, sum[2] = {}, out[kHeadDim / 2] = {};  // joined
  float m[2];  // of the chunk whose scores are there
  uint32_t quanta_sum[2];
  Join j[2];  // of that chunk with those before

  float scale;
  int last_key[2];
  int seen_by_all;  // keys

  __device__ void issue_scores(uint32_t q, uint32_t k) {
    fence_operands();
#pragma unroll
    for (int step = 0; step < kHeadDim / 16; ++step)
      multiply_rows<T>(s, swizzled_operand(q + uint32_t(step / 4 * kQueryHalfBytes + step % 4 * 32)),
                       swizzled_operand(k + uint32_t(step / 4 * kHalfBytes + step % 4 * 32)), step == 0);
    commit_products();
  }
  __device__ void issue_output(float (&o)[32], uint32_t v, int half) const {
    fence_operands();
#pragma unroll
    for (int step = 0; step < kChunk / 16; ++step)
      multiply_columns<T>(o, probabilities[step],
                          swizzled_operand(v + uint32_t(half * kHalfBytes + step * 16 * kRowBytes)),
                          step == 0);
    commit_products();
  }

  __device__ void find_maxima(int start) {
    if (start + kChunk > seen_by_all) {
      const int column = start + int(threadIdx.x % 4) * 2;
#pragma unroll
      for (int i = 0; i < kChunk / 2; ++i)
        if (column + i / 4 * 8 + i % 2 > last_key[i / 2 % 2]) s[i] = -INFINITY;
    }
    float largest[2][2] = {{-INFINITY, -INFINITY}, {-INFINITY, -INFINITY}};
#pragma unroll
    for (int i = 0; i < kChunk / 2; ++i) largest[i / 2 % 2][i % 2] = fmaxf(largest[i / 2 % 2][i % 2], s[i]);
#pragma unroll
    for (int h = 0; h < 2; ++h) {
      float x = fmaxf(largest[h][0], largest[h][1]);
      x = fmaxf(x, __shfl_xor_sync(0xffffffffu, x, 1));
      x = fmaxf(x, __shfl_xor_sync(0xffffffffu, x, 2));
      m[h] = __fmul_rn(x, scale);
      j[h] = join(max[h], m[h]);
      max[h] = j[h].max;
    }
  }
  __device__ void find_probabilities() {
    quanta_sum[0] = quanta_sum[1] = 0;
#pragma unroll
    for (int i = 0; i < kChunk / 2; ++i) {
      s[i] = probability(s[i], scale, m[i / 2 % 2]);
      quanta_sum[i / 2 % 2] += quanta(s[i]);
    }
  }
  // When the products that read the last chunk's probabilities are done.
  __device__ void round_probabilities() {
#pragma unroll
    for (int step = 0; step < kChunk / 16; ++step)
#pragma unroll
      for (int i = 0; i < 4; ++i)
        probabilities[step][i] = pack<T>(s[8 * step + 2 * i], s[8 * step + 2 * i + 1]);
#pragma unroll
    for (int h = 0; h < 2; ++h) {
      uint32_t x = quanta_sum[h];
      x += __shfl_xor_sync(0xffffffffu, x, 1);
      x += __shfl_xor_sync(0xffffffffu, x, 2);
      sum[h] = joined(sum[h], from_quanta(x), j[h]);
    }
  }
  __device__ void join_output(const float (&o)[32], int half, const Join& j0, const Join& j1) {
#pragma unroll
    for (int i = 0; i < 32; ++i) out[32 * half + i] = joined(out[32 * half + i], o[i], i / 2 % 2 ? j1 : j0);
  }
};

template <class T>
__device__ void store_rows(const AttentionParams<T>& p, const Tile& tile, int first_row,
                           const Rows<T>& rows) {
  const int lane = threadIdx.x % 32;
#pragma unroll
  for (int h = 0; h < 2; ++h) {
    const int row = first_row + lane / 4 + 8 * h;
    if (row >= tile.num_rows) continue;
    const int query_row = tile.first_row + row;
    const int64_t token = p.cu_seqlens_q[tile.seq] + query_row / p.group;
    const int head = tile.kv_head * p.group + query_row % p.group;
    const float inverse = __frcp_rn(rows.sum[h]);
    T* out = p.out + token * p.out_stride + head * kHeadDim + lane % 4 * 2;
#pragma unroll
    for (int n = 0; n < kHeadDim / 8; ++n)
      *reinterpret_cast<uint32_t*>(out + n * 8) = pack<T>(__fmul_rn(rows.out[4 * n + 2 * h], inverse),
                                                          __fmul_rn(rows.out[4 * n + 2 * h + 1], inverse));
  }
}

// Both warpgroups walk over all chunks of the tile.
template <class T>
__device__ void attend(const AttentionParams<T>& p, Shared& shared) {
  const int warp = __shfl_sync(0xffffffffu, int(threadIdx.x / 32), 0) - 4, lane = threadIdx.x % 32;
  const int warpgroup = warp / 4, first_row = warp * kWarpRows;
  if (warpgroup == 1) pass_turn(warpgroup);
  load_queries(p, shared.tile, warpgroup, shared.q[warpgroup]);
  const uint32_t q = shared_address(shared.q[warpgroup]);
  const int num_chunks = (shared.tile.num_keys + kChunk - 1) / kChunk;
  Place<3> k;
  Place<2> v;
  const auto wait_for = [](auto& ring, const auto& place) {
    wait_for_phase(&ring.full[place.slot], place.parity);
    return shared_address(ring.slots[place.slot]);
  };
  const auto release = [&](auto& ring, auto& place) {
    if (lane == 0) arrive(&ring.empty[place.slot]);
    place.advance();
  };

  Rows<T> rows;
  rows.scale = scale_of(p.scale);
  rows.seen_by_all = last_key_of(shared.tile, first_row, p.group) + 1;
#pragma unroll
  for (int h = 0; h < 2; ++h)
    rows.last_key[h] = last_key_of(shared.tile, first_row + lane / 4 + 8 * h, p.group);
  rows.issue_scores(q, wait_for(shared.keys, k));
  wait_for_products<0>();
  hold(rows.s);
  release(shared.keys, k);
  rows.find_maxima(0);
  rows.find_probabilities();
  rows.round_probabilities();
  float o[kHeadDim / 4];
  for (int chunk = 1; chunk < num_chunks; ++chunk) {
    const uint32_t keys = wait_for(shared.keys, k), values = wait_for(shared.values, v);
    const Join j0 = rows.j[0], j1 = rows.j[1];
    wait_for_turn(warpgroup);
    rows.issue_scores(q, keys);
    rows.issue_output(o, values, 0);
    pass_turn(warpgroup);
    wait_for_products<1>();
    hold(rows.s);
    release(shared.keys, k);
    rows.find_maxima(chunk * kChunk);
    wait_for_products<0>();
    hold(o);
    rows.join_output(o, 0, j0, j1);
    rows.issue_output(o, values, 1);
    rows.find_probabilities();
    wait_for_products<0>();
    hold(o);
    release(shared.values, v);
    rows.join_output(o, 1, j0, j1);
    rows.round_probabilities();
  }
  const uint32_t values = wait_for(shared.values, v);
  float last[kHeadDim / 4];
  rows.issue_output(o, values, 0);
  rows.issue_output(last, values, 1);
  wait_for_products<1>();
  hold(o);
  rows.join_output(o, 0, rows.j[0], rows.j[1]);
  wait_for_products<0>();
  hold(last);
  rows.join_output(last, 1, rows.j[0], rows.j[1]);
  store_rows(p, shared.tile, first_row, rows);
}

// What the kernel was compiled for shows in its launch bounds: for other GPUs it is empty.
constexpr int kCompiledThreads = kThreads;
#else
constexpr int kCompiledThreads = 32;
#endif

template <class T>
__global__ void __launch_bounds__(kCompiledThreads, 1)
    prefill_kernel(const __grid_constant__ AttentionParams<T> p) {
#ifdef __CUDA_ARCH_FEAT_SM90_ALL
  extern __shared__ __align__(1024) unsigned char memory[];
  Shared& shared = *reinterpret_cast<Shared*>(memory);
  const int warp = __shfl_sync(0xffffffffu, int(threadIdx.x / 32), 0);
  if (warp == 0) {
    const Tile tile = find_tile(p);
    if (threadIdx.x == 0) {
      shared.tile = tile;
      const auto init = [](auto& ring) {
        for (uint64_t& barrier : ring.full) init_barrier(&barrier, 1);
        for (uint64_t& barrier : ring.empty) init_barrier(&barrier, 2 * kWarpgroup / 32);
      };
      init(shared.keys);
      init(shared.values);
      publish_barriers();
    }
  }
  __syncthreads();
  if (shared.tile.num_rows == 0) return;
  if (warp < 4) {
    give_registers<kCopyRegisters>();
    if (warp == 0) copy_chunks<T, false>(p, shared.tile, p.k, shared.keys);
    if (warp == 1) copy_chunks<T, true>(p, shared.tile, p.v, shared.values);
  } else {
    take_registers<kComputeRegisters>();
    attend(p, shared);
  }
#endif
}

template <class Body>
void with_kernel(DType dtype, Body&& body) {
  dtype == DType::kBF16 ? body(Bf16{}, prefill_kernel<Bf16>) : body(F16{}, prefill_kernel<F16>);
}

// Sequences that are not planned, and their query rows.
struct Amount {
  int64_t num_seqs, num_rows;
};
Amount amount_of(const AttentionArgs& a) {
  const int64_t planned = a.meta.plan.defined() ? std::max<int64_t>(0, a.meta.num_singles) : 0;
  return {a.meta.seq_lens.shape[0] - planned,
          (a.q.shape[0] - planned) * (a.q.shape[1] / a.cache.num_kv_heads)};
}

}  // namespace

bool is_for_prefill_kernel(const AttentionArgs& a) {
  const KvLayer& cache = a.cache;
  const auto is_aligned = [](const Tensor& x, int64_t stride, int64_t bytes) {
    return reinterpret_cast<uintptr_t>(x.data) % uintptr_t(bytes) == 0 && stride * 2 % bytes == 0;
  };
  const Amount amount = amount_of(a);
  const bool is_served = (cache.dtype == DType::kBF16 || cache.dtype == DType::kF16) &&
                         cache.head_dim == kHeadDim && cache.block_size % 16 == 0 &&
                         (cache.block_size % kMostPieceRows == 0 || kMostPieceRows % cache.block_size == 0) &&
                         is_aligned(a.q, a.q.stride[0], 16) && is_aligned(a.q, a.q.stride[1], 16) &&
                         is_aligned(a.out, a.out.stride[0], 4) &&
                         amount.num_rows > kWarpRows * amount.num_seqs;
  if (!is_served) return false;
  bool is_compiled = false;
  with_kernel(cache.dtype, [&](auto, auto kernel) {
    cudaFuncAttributes attributes{};
    check(cudaFuncGetAttributes(&attributes, kernel), "attention");
    is_compiled = attributes.maxThreadsPerBlock >= kThreads;
  });
  return is_compiled;
}

void prefill_attention(Context& ctx, const AttentionArgs& a) {
  const Amount amount = amount_of(a);
  const int64_t most_tiles = amount.num_rows / kTileRows + amount.num_seqs;
  with_kernel(a.cache.dtype, [&]<class T>(T, auto kernel) {
    AttentionParams<T> p = attention_params<T>(a);
    p.singles_are_planned = a.meta.plan.defined();
    check(cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, int(sizeof(Shared))),
          "attention");
    kernel<<<unsigned(most_tiles * p.num_kv_heads), kThreads, sizeof(Shared), stream_of(ctx)>>>(p);
  });
  check_launch("attention");
}

}  // namespace nanovllm::cuda
