// Attention by tensor cores, for T = bf16 and f16 (ops/attention.h, the definition for tensor cores).
//
// A thread block takes 64 query rows of one kv head and sequence (token by token, heads of the group inside) and walks over
// the keys in chunks of 128, which it copies to shared memory one ahead. A warp has 16 rows. Where all rows of a sequence fit
// one warp (a decode), four warps share the chunk instead: a quarter of the keys for the scores, a quarter of head_dim for
// the output. Every value is an elementwise step, a maximum, an exact integer sum or one chain, so both ways, and any cut of
// the prompt, give the same bits.
#include "ops/cuda/attention_common.cuh"
#include "ops/cuda/attention_definition.cuh"
#include "ops/cuda/attention_plan.cuh"
#include "ops/cuda/kernels.cuh"
#include "ops/cuda/mma.cuh"

namespace nanovllm::cuda {
namespace {

constexpr int kChunk = kAttentionChunk, kWarps = 4, kThreads = 32 * kWarps;
constexpr int kWarpRows = 16, kTileRows = kWarps * kWarpRows;

// Over the four lanes that have the same rows.
__device__ float max_of_row(float x) {
  x = fmaxf(x, __shfl_xor_sync(0xffffffffu, x, 1));
  return fmaxf(x, __shfl_xor_sync(0xffffffffu, x, 2));
}
__device__ uint32_t sum_of_row(uint32_t x) {
  x += __shfl_xor_sync(0xffffffffu, x, 1);
  return x + __shfl_xor_sync(0xffffffffu, x, 2);
}

// ---- shared memory ----

// Byte offset of the 16-byte piece `piece` of row `row`, rows of kPieces pieces: pieces change places by row, so that eight
// rows' pieces lie in different banks.
template <int kPieces>
__device__ uint32_t piece_offset(int row, int piece) {
  constexpr int kRowsPerLine = kPieces < 8 ? 8 / kPieces : 1;
  return uint32_t(row * kPieces + (piece ^ (row / kRowsPerLine & (kPieces < 8 ? kPieces - 1 : 7)))) * 16;
}

template <class T, int kHeadDim>
struct Shared {
  static constexpr int kRowBytes = kHeadDim * int(sizeof(T));
  alignas(128) unsigned char k[kChunk * kRowBytes], v[kChunk * kRowBytes];
  alignas(128) unsigned char p[kWarpRows * kChunk * sizeof(T)];  // of a decode
  float max[kWarps][kWarpRows];
  uint32_t sum[kWarps][kWarpRows];
  int64_t rows[2][kChunk];  // of this chunk and the next
};

// One tile's work.
struct Tile {
  int seq, kv_head;
  int first_row, num_rows;          // of the sequence's query rows
  int num_queries, first_position;  // of the sequence's queries
  int num_keys;                     // that the last row sees

  __device__ int token(int row, int group) const { return (first_row + row) / group; }
};

template <class T>
__device__ bool find_tile(const AttentionParams<T>& p, Tile& tile) {
  // Sequence i has tiles from first(i) on: room for its own, whatever cu_seqlens is, without a sum over sequences.
  const auto first = [&](int i) { return int64_t(p.cu_seqlens_q[i]) * p.group / kTileRows + i; };
  tile.kv_head = blockIdx.y;
  // Last tiles first: of a prompt they have most to do.
  const int64_t index = int64_t(gridDim.x) - 1 - blockIdx.x;
  tile.seq = last_at_or_before(p.num_seqs, index, first);
  tile.num_queries = p.cu_seqlens_q[tile.seq + 1] - p.cu_seqlens_q[tile.seq];
  tile.first_row = int(index - first(tile.seq)) * kTileRows;
  tile.num_rows = min(kTileRows, tile.num_queries * p.group - tile.first_row);
  if (tile.num_rows <= 0 || (p.singles_are_planned && tile.num_queries == 1)) return false;
  tile.first_position = p.seq_lens[tile.seq] - tile.num_queries;
  tile.num_keys = tile.first_position + tile.token(tile.num_rows - 1, p.group) + 1;
  return true;
}

// Where the keys, and the values, [start, start + 128) of the tile's sequence are in the cache; -1 behind the last. A thread a key.
template <class T, int kHeadDim>
__device__ void find_rows(const AttentionParams<T>& p, const Tile& tile, int64_t* rows, int start) {
  static_assert(kThreads == kChunk);
  const int position = start + int(threadIdx.x);
  rows[threadIdx.x] = position < tile.num_keys ? key_row<kHeadDim>(p, tile.seq, tile.kv_head, position) : -1;
}

// These keys, or values, zeros behind the last.
template <class T, int kHeadDim>
__device__ void copy_chunk(const AttentionParams<T>& p, const T* cache, const int64_t* rows,
                           unsigned char* shared) {
  constexpr int kPieces = kHeadDim * int(sizeof(T)) / 16;
  const uint32_t base = uint32_t(__cvta_generic_to_shared(shared));
#pragma unroll 4
  for (int i = threadIdx.x; i < kChunk * kPieces; i += kThreads) {
    const int row = i / kPieces, piece = i % kPieces;
    const int64_t at = rows[row];
    const T* from = at >= 0 ? cache + piece_of_row<kHeadDim, T>(at, piece, p.block_size) : cache;
    copy_16_bytes_async(base + piece_offset<kPieces>(row, piece), from, at >= 0);
  }
  commit_copies();
}

// ---- rows of one warp ----

template <class T, int kHeadDim>
struct Rows {
  static constexpr int kSteps = kHeadDim / 16;
  uint32_t q[kSteps][4];  // the A operand
  int last_key[2];        // position of the last key that rows g and g + 8 see; -1: no such row

  __device__ void load(const AttentionParams<T>& p, const Tile& tile, int first_row) {
    const int lane = threadIdx.x % 32, column = lane % 4 * 2;
#pragma unroll
    for (int half = 0; half < 2; ++half) {
      const int row = first_row + lane / 4 + 8 * half;
      const bool valid = row < tile.num_rows;
      const int token = valid ? tile.token(row, p.group) : 0;
      const int head = tile.kv_head * p.group + (tile.first_row + row) % p.group;
      last_key[half] = valid ? tile.first_position + token : -1;
      const T* from =
          p.q + (p.cu_seqlens_q[tile.seq] + token) * p.q_stride + (valid ? head : 0) * p.q_head_stride;
#pragma unroll
      for (int step = 0; step < kSteps; ++step) {
        q[step][half] = valid ? pair_of(from + step * 16 + column) : 0;
        q[step][half + 2] = valid ? pair_of(from + step * 16 + column + 8) : 0;
      }
    }
  }

  __device__ static uint32_t pair_of(const T* x) { return *reinterpret_cast<const uint32_t*>(x); }
};

// Scores of 16 rows with kTiles groups of 8 keys, from key `first_key` of the chunk on; masked ones -inf.
template <class T, int kHeadDim, int kTiles>
__device__ void compute_scores(const Rows<T, kHeadDim>& rows, const unsigned char* k, int first_key,
                               int start, float (&s)[kTiles][4]) {
  constexpr int kPieces = kHeadDim * int(sizeof(T)) / 16;
  const int lane = threadIdx.x % 32;
  const uint32_t base = uint32_t(__cvta_generic_to_shared(k));
#pragma unroll
  for (int n = 0; n < kTiles; ++n)
#pragma unroll
    for (int i = 0; i < 4; ++i) s[n][i] = 0;
#pragma unroll
  for (int step = 0; step < kHeadDim / 16; ++step)
#pragma unroll
    for (int n = 0; n < kTiles; n += 2) {
      uint32_t b[4];  // two groups of keys, both halves of the step's 16 dimensions
      const int row = first_key + n * 8 + lane / 16 * 8 + lane % 8, piece = step * 2 + lane / 8 % 2;
      load_4_matrices(b, base + piece_offset<kPieces>(row, piece));
      mma<T>(s[n], rows.q[step], b[0], b[1]);
      mma<T>(s[n + 1], rows.q[step], b[2], b[3]);
    }
  const int first_position = start + first_key + lane % 4 * 2;
#pragma unroll
  for (int n = 0; n < kTiles; ++n)
#pragma unroll
    for (int i = 0; i < 4; ++i)
      if (first_position + n * 8 + i % 2 > rows.last_key[i / 2]) s[n][i] = -INFINITY;
}

// Scores to probabilities; sum: their quanta, of this lane's keys.
template <int kTiles>
__device__ void compute_probabilities(float (&s)[kTiles][4], const float (&m)[2], float scale,
                                      uint32_t (&sum)[2]) {
#pragma unroll
  for (int n = 0; n < kTiles; ++n)
#pragma unroll
    for (int i = 0; i < 4; ++i) {
      s[n][i] = probability(s[n][i], scale, m[i / 2]);
      sum[i / 2] += quanta(s[n][i]);
    }
}

template <int kTiles>
__device__ void row_maxima(const float (&s)[kTiles][4], float (&m)[2]) {
  m[0] = m[1] = -INFINITY;
#pragma unroll
  for (int n = 0; n < kTiles; ++n)
#pragma unroll
    for (int i = 0; i < 4; ++i) m[i / 2] = fmaxf(m[i / 2], s[n][i]);
  m[0] = max_of_row(m[0]);
  m[1] = max_of_row(m[1]);
}

// The chain over the chunk's 128 keys for 8 dimensions from 8 tile on.
template <class T, int kHeadDim>
__device__ void compute_output(const uint32_t (&p)[kChunk / 16][4], const unsigned char* v, int tile,
                               float (&o)[4]) {
  constexpr int kPieces = kHeadDim * int(sizeof(T)) / 16;
  const uint32_t base = uint32_t(__cvta_generic_to_shared(v));
#pragma unroll
  for (int i = 0; i < 4; ++i) o[i] = 0;
#pragma unroll
  for (int step = 0; step < kChunk / 16; ++step) {
    uint32_t b0, b1;
    load_2_matrices_transposed(b0, b1, base + piece_offset<kPieces>(step * 16 + int(threadIdx.x % 16), tile));
    mma<T>(o, p[step], b0, b1);
  }
}

template <class T>
__device__ void store_rows(const AttentionParams<T>& p, const Tile& tile, int first_row, int column,
                           const float (&o)[4], const float (&inverse)[2]) {
  const int lane = threadIdx.x % 32;
#pragma unroll
  for (int half = 0; half < 2; ++half) {
    const int row = first_row + lane / 4 + 8 * half;
    if (row >= tile.num_rows) continue;
    const int64_t token = p.cu_seqlens_q[tile.seq] + tile.token(row, p.group);
    const int head = tile.kv_head * p.group + (tile.first_row + row) % p.group;
    T* out = p.out + token * p.out_stride + int64_t(head) * p.head_dim + column + lane % 4 * 2;
    out[0] = round_to<T>(__fmul_rn(o[2 * half], inverse[half]));
    out[1] = round_to<T>(__fmul_rn(o[2 * half + 1], inverse[half]));
  }
}

// Both ways below copy one chunk ahead: values while scores are computed, the next keys while values are used.
template <class T, int kHeadDim>
__device__ void copy_first(const AttentionParams<T>& p, const Tile& tile, Shared<T, kHeadDim>& shared) {
  find_rows<T, kHeadDim>(p, tile, shared.rows[0], 0);
  __syncthreads();
  copy_chunk<T, kHeadDim>(p, p.k, shared.rows[0], shared.k);
  copy_chunk<T, kHeadDim>(p, p.v, shared.rows[0], shared.v);
}
// Before the next chunk is copied.
template <class T, int kHeadDim>
__device__ void find_next(const AttentionParams<T>& p, const Tile& tile, Shared<T, kHeadDim>& shared,
                          int start) {
  find_rows<T, kHeadDim>(p, tile, shared.rows[(start / kChunk + 1) % 2], start + kChunk);
}
// Of the two chunks on their way the older, keys or values in turn.
__device__ void next_is_there() {
  wait_for_copies<1>();
  __syncthreads();
}
template <class T, int kHeadDim>
__device__ void copy_next(const AttentionParams<T>& p, const Tile& tile, const T* cache,
                          const Shared<T, kHeadDim>& shared, unsigned char* to, int start) {
  __syncthreads();  // all have read what is there
  if (start + kChunk < tile.num_keys)
    copy_chunk<T, kHeadDim>(p, cache, shared.rows[(start / kChunk + 1) % 2], to);
  else
    commit_copies();  // an empty group keeps the count
}

// Each warp has 16 rows of its own.
template <class T, int kHeadDim>
__device__ void attend_rows(const AttentionParams<T>& p, const Tile& tile, Shared<T, kHeadDim>& shared,
                            float scale) {
  constexpr int kTiles = kHeadDim / 8;
  const int first_row = int(threadIdx.x / 32) * kWarpRows;
  Rows<T, kHeadDim> rows;
  rows.load(p, tile, first_row);
  float max[2] = {-INFINITY, -INFINITY}, sum[2] = {}, out[kTiles][4] = {};
  for (int start = 0; start < tile.num_keys; start += kChunk) {
    uint32_t probabilities[kChunk / 16][4], quanta_sum[2] = {};
    float m[2];
    find_next(p, tile, shared, start);
    next_is_there();
    {
      float s[kChunk / 8][4];
      compute_scores<T, kHeadDim>(rows, shared.k, 0, start, s);
      row_maxima(s, m);
      for (float& each : m) each = __fmul_rn(each, scale);
      compute_probabilities(s, m, scale, quanta_sum);
#pragma unroll
      for (int step = 0; step < kChunk / 16; ++step) {
        probabilities[step][0] = pack<T>(s[2 * step][0], s[2 * step][1]);
        probabilities[step][1] = pack<T>(s[2 * step][2], s[2 * step][3]);
        probabilities[step][2] = pack<T>(s[2 * step + 1][0], s[2 * step + 1][1]);
        probabilities[step][3] = pack<T>(s[2 * step + 1][2], s[2 * step + 1][3]);
      }
    }
    copy_next<T, kHeadDim>(p, tile, p.k, shared, shared.k, start);
    Join j[2];
#pragma unroll
    for (int half = 0; half < 2; ++half) {
      j[half] = join(max[half], m[half]);
      max[half] = j[half].max;
      sum[half] = joined(sum[half], from_quanta(sum_of_row(quanta_sum[half])), j[half]);
    }
    next_is_there();
#pragma unroll
    for (int n = 0; n < kTiles; ++n) {
      float o[4];
      compute_output<T, kHeadDim>(probabilities, shared.v, n, o);
#pragma unroll
      for (int i = 0; i < 4; ++i) out[n][i] = joined(out[n][i], o[i], j[i / 2]);
    }
    copy_next<T, kHeadDim>(p, tile, p.v, shared, shared.v, start);
  }
  const float inverse[2] = {__frcp_rn(sum[0]), __frcp_rn(sum[1])};
#pragma unroll
  for (int n = 0; n < kTiles; ++n) store_rows(p, tile, first_row, n * 8, out[n], inverse);
}

// All warps have the same 16 rows: each a quarter of a chunk's keys, then a quarter of head_dim.
template <class T, int kHeadDim>
__device__ void attend_together(const AttentionParams<T>& p, const Tile& tile, Shared<T, kHeadDim>& shared,
                                float scale) {
  constexpr int kKeyTiles = kChunk / 8 / kWarps, kTiles = kHeadDim < 8 * kWarps ? 1 : kHeadDim / 8 / kWarps;
  constexpr int kPieces = kChunk * int(sizeof(T)) / 16;
  const int warp = threadIdx.x / 32, lane = threadIdx.x % 32, group = lane / 4;
  const bool has_dims = warp * kTiles * 8 < kHeadDim;
  Rows<T, kHeadDim> rows;
  rows.load(p, tile, 0);
  float max[2] = {-INFINITY, -INFINITY}, sum[2] = {}, out[kTiles][4] = {};
  const uint32_t p_base = uint32_t(__cvta_generic_to_shared(shared.p));
  for (int start = 0; start < tile.num_keys; start += kChunk) {
    float s[kKeyTiles][4], m[2];
    uint32_t quanta_sum[2] = {};
    find_next(p, tile, shared, start);
    next_is_there();
    const int first_key = warp * kKeyTiles * 8;
    compute_scores<T, kHeadDim>(rows, shared.k, first_key, start, s);
    row_maxima(s, m);
    if (lane % 4 == 0) {
      shared.max[warp][group] = m[0];
      shared.max[warp][group + 8] = m[1];
    }
    copy_next<T, kHeadDim>(p, tile, p.k, shared, shared.k, start);  // and all maxima are there
#pragma unroll
    for (int half = 0; half < 2; ++half) {
      for (int w = 0; w < kWarps; ++w) m[half] = fmaxf(m[half], shared.max[w][group + 8 * half]);
      m[half] = __fmul_rn(m[half], scale);
    }
    compute_probabilities(s, m, scale, quanta_sum);
#pragma unroll
    for (int n = 0; n < kKeyTiles; ++n)
#pragma unroll
      for (int half = 0; half < 2; ++half) {
        const uint32_t pair = pack<T>(s[n][2 * half], s[n][2 * half + 1]);
        const uint32_t at =
            piece_offset<kPieces>(group + 8 * half, warp * kKeyTiles + n) + uint32_t(lane % 4) * 4;
        *reinterpret_cast<uint32_t*>(shared.p + at) = pair;
      }
#pragma unroll
    for (int half = 0; half < 2; ++half) {
      const uint32_t total = sum_of_row(quanta_sum[half]);
      if (lane % 4 == 0) shared.sum[warp][group + 8 * half] = total;
    }
    next_is_there();  // and all probabilities and sums
    Join j[2];
#pragma unroll
    for (int half = 0; half < 2; ++half) {
      uint32_t total = 0;
      for (int w = 0; w < kWarps; ++w) total += shared.sum[w][group + 8 * half];
      j[half] = join(max[half], m[half]);
      max[half] = j[half].max;
      sum[half] = joined(sum[half], from_quanta(total), j[half]);
    }
    if (has_dims) {
      uint32_t probabilities[kChunk / 16][4];
#pragma unroll
      for (int step = 0; step < kChunk / 16; ++step)
        load_4_matrices(probabilities[step], p_base + piece_offset<kPieces>(lane % 16, step * 2 + lane / 16));
#pragma unroll
      for (int n = 0; n < kTiles; ++n) {
        float o[4];
        compute_output<T, kHeadDim>(probabilities, shared.v, warp * kTiles + n, o);
#pragma unroll
        for (int i = 0; i < 4; ++i) out[n][i] = joined(out[n][i], o[i], j[i / 2]);
      }
    }
    copy_next<T, kHeadDim>(p, tile, p.v, shared, shared.v, start);
  }
  const float inverse[2] = {__frcp_rn(sum[0]), __frcp_rn(sum[1])};
  if (has_dims)
#pragma unroll
    for (int n = 0; n < kTiles; ++n) store_rows(p, tile, 0, (warp * kTiles + n) * 8, out[n], inverse);
}

template <class T, int kHeadDim>
__global__ void __launch_bounds__(kThreads) attention_mma_kernel(AttentionParams<T> p) {
  extern __shared__ __align__(128) unsigned char memory[];
  Shared<T, kHeadDim>& shared = *reinterpret_cast<Shared<T, kHeadDim>*>(memory);
  Tile tile;
  if (!find_tile(p, tile)) return;
  const float scale = scale_of(p.scale);
  copy_first<T, kHeadDim>(p, tile, shared);
  if (tile.num_queries * p.group <= kWarpRows)
    attend_together<T, kHeadDim>(p, tile, shared, scale);
  else
    attend_rows<T, kHeadDim>(p, tile, shared, scale);
}

template <class T, int kHeadDim>
void launch(Context& ctx, const AttentionArgs& a) {
  AttentionParams<T> p = attention_params<T>(a);
  p.singles_are_planned = a.meta.plan.defined();
  if (p.singles_are_planned && a.meta.num_singles != 0) decode_attention(ctx, a);
  if (p.singles_are_planned && a.meta.num_singles == p.num_seqs) return;
  if (is_for_prefill_kernel(a)) return prefill_attention(ctx, a);
  constexpr size_t kBytes = sizeof(Shared<T, kHeadDim>);
  check(cudaFuncSetAttribute(attention_mma_kernel<T, kHeadDim>, cudaFuncAttributeMaxDynamicSharedMemorySize,
                             int(kBytes)),
        "attention");
  const int64_t most_tiles = a.q.shape[0] * p.group / kTileRows + p.num_seqs;
  attention_mma_kernel<T, kHeadDim>
      <<<dim3(unsigned(most_tiles), unsigned(p.num_kv_heads)), kThreads, kBytes, stream_of(ctx)>>>(p);
}

}  // namespace

void attention_mma(Context& ctx, const AttentionArgs& a) {
  if (a.q.shape[0] == 0) return;
  const auto with_head_dim = [&]<class T>(T) {
    switch (a.cache.head_dim) {
      case 16:
        return launch<T, 16>(ctx, a);
      case 32:
        return launch<T, 32>(ctx, a);
      case 64:
        return launch<T, 64>(ctx, a);
      case 128:
        return launch<T, 128>(ctx, a);
      default:
        fail(ErrorKind::kUnsupported, "attention: head_dim is ", a.cache.head_dim,
             ", want 16, 32, 64 or 128, or float32 activations (--dtype float32)");
    }
  };
  a.q.dtype == DType::kBF16 ? with_head_dim(Bf16{}) : with_head_dim(F16{});
  check_launch("attention");
}

}  // namespace nanovllm::cuda
