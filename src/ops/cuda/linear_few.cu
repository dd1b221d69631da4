// Products of few tokens (ops/linear.h) on Hopper: reading the weights is all their time, and it begins before the kernel that
// makes x is complete (launch.cuh).
//
// A thread block has 16 to 64 rows of one segment's weights and all tokens. Some warps copy weights, some tokens, in stages of
// 128 k through a ring; the others, a warp 16 rows and all or half of the tokens, run the chain: mma.sync m16n8k16 over K in
// order from zero, weights as the first operand (which is first changes no bit).
#include "ops/cuda/bulk_copy.cuh"
#include "ops/cuda/kernels.cuh"
#include "ops/cuda/launch.cuh"
#include "ops/cuda/linear_few.cuh"
#include "ops/cuda/mma.cuh"
#include "ops/cuda/silu_and_mul.cuh"

namespace nanovllm::cuda {
namespace {

constexpr int kStageK = 128, kRowBytes = kStageK * 2, kMaxStages = 8;
constexpr int kWeightWarps = 4, kMaxRowTiles = 4;
constexpr size_t kRingBytes = size_t{100} << 10;
// Where all thread blocks can run at once, each is to have a multiprocessor of its own, to read at its full rate. So much shared
// memory is asked for that of two products in a row, one of them row-parallel (o, down), a block of each fits a multiprocessor,
// which so has the second's weights on their way earlier, but not two of the second beside one of the first.
constexpr size_t kColumnParallelBytes = kRingBytes, kRowParallelBytes = size_t{115} << 10;
// A stage is refilled when the next has been waited for.
static_assert(kRingBytes / (size_t(16 * kMaxRowTiles + kFewTokens) * kRowBytes) >= 2);

constexpr int token_warps(int tokens) { return tokens >= 32 ? 2 : 1; }                 // that share 16 rows
constexpr int copying_warps(int tokens) { return tokens / 16 < 1 ? 1 : tokens / 16; }  // of tokens

template <class T>
struct FewParams {
  void* out;
  const T *x, *weight;
  const float* bias;
  int num_tokens, num_outputs, segment;
  int64_t k, x_stride, out_stride, segment_stride;
  bool is_f32;                        // out
  int row_tiles = 0, num_stages = 0;  // of a block: tiles of 16 rows, stages of its ring
};

#if __CUDA_ARCH__ >= 900

constexpr int kPieces = kStageK / 8, kSteps = kStageK / 16;  // of a row

// Pieces of 16 bytes change places by row, so that ldmatrix finds eight rows in different banks.
__device__ uint32_t piece_at(int row, int piece) {
  return uint32_t(row * kPieces + (piece ^ (row % 8))) * 16;
}

// What one of kThreads threads copies of every stage: a piece of each of its rows. Rows that are not there are left as they are
// (no other row's sums depend on them); behind the last k come zeros.
template <class T, int kThreads, int kMaxRows>
class Copies {
 public:
  // source(row): where a row of the segment begins, or null.
  template <class Source>
  __device__ Copies(int thread, int num_rows, Source&& source) : piece_(thread % kPieces) {
#pragma unroll
    for (int i = 0; i < kCount; ++i) {
      const int row = thread / kPieces + i * kRowsAtOnce;
      from_[i] = row < num_rows ? source(row) : nullptr;
      to_[i] = piece_at(row, piece_);
    }
  }

  // The stage from k on, of a segment that ends at `end`; barrier: told when all is there.
  __device__ void copy(uint32_t shared, int k, int end, uint64_t* barrier) const {
    k += 8 * piece_;
#pragma unroll
    for (int i = 0; i < kCount; ++i)
      if (from_[i]) copy_16_bytes_async(shared + to_[i], k < end ? from_[i] + k : from_[i], k < end);
    asm volatile("cp.async.mbarrier.arrive.noinc.shared::cta.b64 [%0];" ::"r"(shared_address(barrier))
                 : "memory");
  }

 private:
  static constexpr int kRowsAtOnce = kThreads / kPieces, kCount = kMaxRows / kRowsAtOnce;
  int piece_;
  const T* from_[kCount];
  uint32_t to_[kCount];
};

// One step's 16 k of 16 rows and 8 kTiles tokens, pieces 2 step and 2 step + 1 of a stage.
template <int kTiles>
struct Operands {
  uint32_t a[4], b[kTiles][2];

  __device__ void load(uint32_t weights, uint32_t x, int first_row, int first_token, int step) {
    const int lane = threadIdx.x % 32;
    load_4_matrices(a, weights + piece_at(first_row + lane % 16, 2 * step + lane / 16));
    if constexpr (kTiles == 1) {
      load_2_matrices(b[0][0], b[0][1], x + piece_at(first_token + lane % 8, 2 * step + lane / 8 % 2));
    } else {
#pragma unroll
      for (int n = 0; n < kTiles; n += 2) {
        uint32_t two[4];
        load_4_matrices(
            two, x + piece_at(first_token + n * 8 + lane / 16 * 8 + lane % 8, 2 * step + lane / 8 % 2));
        b[n][0] = two[0], b[n][1] = two[1], b[n + 1][0] = two[2], b[n + 1][1] = two[3];
      }
    }
  }

  template <class T>
  __device__ void add_to(float (&sums)[kTiles][4]) const {
#pragma unroll
    for (int n = 0; n < kTiles; ++n) mma<T>(sums[n], a, b[n][0], b[n][1]);
  }
};

#endif

template <class T, int kTokens, bool kGated>
__global__ void __launch_bounds__(512) few_tokens_kernel(const __grid_constant__ FewParams<T> p) {
#if __CUDA_ARCH__ >= 900
  constexpr int kTokenWarps = token_warps(kTokens), kCopyThreads = 32 * copying_warps(kTokens),
                kWeightThreads = 32 * kWeightWarps, kTiles = kTokens / 8 / kTokenWarps;
  extern __shared__ __align__(128) unsigned char ring[];
  __shared__ uint64_t full[kMaxStages], empty[kMaxStages];
  let_next_start();
  const int num_computing = 32 * p.row_tiles * kTokenWarps, rows = 16 * p.row_tiles;
  if (threadIdx.x == 0) {
    for (int i = 0; i < p.num_stages; ++i) {
      init_barrier(&full[i], kWeightThreads + kCopyThreads);
      init_barrier(&empty[i], num_computing / 32);
    }
    publish_barriers();
  }
  __syncthreads();
  const uint32_t base = shared_address(ring), stage_bytes = uint32_t(rows + kTokens) * kRowBytes;
  // Gated: half as many outputs as rows; of 16 rows 8 are of gate and 8 of up, so that a thread has both of an output.
  const int first_out = int(blockIdx.x) * (kGated ? rows / 2 : rows), first_k = int(blockIdx.y) * p.segment;
  const int num_steps = (p.segment + kStageK - 1) / kStageK;
  const auto refill = [&](int step) {  // its slot, once it is empty
    const int slot = step % p.num_stages, round = step / p.num_stages;
    if (round > 0) wait_for_phase(&empty[slot], uint32_t(round - 1) % 2);
    return slot;
  };

  const int thread = int(threadIdx.x) - num_computing;
  if (thread >= kCopyThreads) {
    const T* weight = p.weight + first_k;
    const Copies<T, kWeightThreads, 16 * kMaxRowTiles> copies(
        thread - kCopyThreads, rows, [&](int row) -> const T* {
          const int out = first_out + (kGated ? row / 16 * 8 + row % 8 : row);
          if (out >= p.num_outputs) return nullptr;
          return weight + (kGated && row % 16 >= 8 ? out + p.num_outputs : out) * p.k;
        });
    for (int step = 0; step < num_steps; ++step) {
      const int slot = refill(step);
      copies.copy(base + uint32_t(slot) * stage_bytes, step * kStageK, p.segment, &full[slot]);
    }
    wait_for_all_copies();
    return;
  }
  if (thread >= 0) {
    const Copies<T, kCopyThreads, kTokens> copies(
        thread, p.num_tokens, [&](int token) { return p.x + token * p.x_stride + first_k; });
    wait_for_previous();
    for (int step = 0; step < num_steps; ++step) {
      const int slot = refill(step);
      copies.copy(base + uint32_t(slot) * stage_bytes + uint32_t(rows) * kRowBytes, step * kStageK, p.segment,
                  &full[slot]);
    }
    wait_for_all_copies();
    return;
  }

  const int warp = int(threadIdx.x) / 32, lane = int(threadIdx.x) % 32;
  const int warp_row = warp / kTokenWarps * 16, warp_token = warp % kTokenWarps * (8 * kTiles);
  float sums[kTiles][4] = {};
  // Operands are loaded one step ahead of their use.
  Operands<kTiles> operands[2];
  const auto load = [&](Operands<kTiles>& to, uint32_t weights, int i) {
    to.load(weights, weights + uint32_t(rows) * kRowBytes, warp_row, warp_token, i);
  };
  int slot = 0;
  uint32_t parity = 0, weights = base;
  wait_for_phase(&full[0], 0);
  load(operands[0], weights, 0);
  for (int step = 0; step < num_steps; ++step) {
    const int left = (p.segment - step * kStageK + 15) / 16;
    const int next_slot = slot + 1 == p.num_stages ? 0 : slot + 1;
    const uint32_t next_parity = next_slot == 0 ? parity ^ 1 : parity,
                   next_weights = base + uint32_t(next_slot) * stage_bytes;
    if (left >= kSteps) {
#pragma unroll
      for (int i = 0; i < kSteps; ++i) {
        if (i + 1 < kSteps) {
          load(operands[(i + 1) % 2], weights, i + 1);
        } else if (step + 1 < num_steps) {
          wait_for_phase(&full[next_slot], next_parity);
          load(operands[0], next_weights, 0);
        }
        operands[i % 2].template add_to<T>(sums);
      }
    } else {  // the last
      operands[0].template add_to<T>(sums);
      for (int i = 1; i < left; ++i) {
        load(operands[0], weights, i);
        operands[0].template add_to<T>(sums);
      }
    }
    if (step + p.num_stages < num_steps) {  // what comes there next may be copied
      __syncwarp();
      if (lane == 0) arrive(&empty[slot]);
    }
    slot = next_slot, parity = next_parity, weights = next_weights;
  }

  const auto with_bias = [&](float sum, int row) {
    return p.bias && blockIdx.y == 0 ? sum + p.bias[row] : sum;
  };
#pragma unroll
  for (int n = 0; n < kTiles; ++n)
#pragma unroll
    for (int i = 0; i < (kGated ? 2 : 4); ++i) {
      const int out = first_out + (kGated ? warp_row / 2 : warp_row) + lane / 4 + i / 2 * 8,
                token = warp_token + n * 8 + lane % 4 * 2 + i % 2;
      if (out >= p.num_outputs || token >= p.num_tokens) continue;
      const int64_t at = blockIdx.y * p.segment_stride + token * p.out_stride + out;
      if constexpr (kGated) {
        const T gate = round_to<T>(with_bias(sums[n][i], out)),
                up = round_to<T>(with_bias(sums[n][i + 2], out + p.num_outputs));
        static_cast<T*>(p.out)[at] = silu_and_mul_of(gate, up);
      } else {
        const float value = with_bias(sums[n][i], out);
        if (p.is_f32)
          static_cast<float*>(p.out)[at] = value;
        else
          static_cast<T*>(p.out)[at] = round_to<T>(value);
      }
    }
#endif
}

// Tiles of 16 rows in a block: such that the multiprocessor with most rows has least.
int choose_row_tiles(int num_tiles, int num_segments, int num_multiprocessors) {
  int best = 0, least = 0;
  for (int tiles = kMaxRowTiles; tiles >= 1; --tiles) {
    const int blocks = (num_tiles + tiles - 1) / tiles * num_segments;
    const int rows = (blocks + num_multiprocessors - 1) / num_multiprocessors * tiles;
    if (best == 0 || rows < least) best = tiles, least = rows;
  }
  return best;
}

template <class T, int kTokens, bool kGated>
void launch(Context& ctx, FewParams<T> p, int num_segments) {
  const State& state = state_of(ctx);
  constexpr int kTileOutputs = kGated ? 8 : 16;
  p.row_tiles = choose_row_tiles((p.num_outputs + kTileOutputs - 1) / kTileOutputs, num_segments,
                                 state.num_multiprocessors);
  const size_t stage_bytes = size_t(16 * p.row_tiles + kTokens) * kRowBytes;
  p.num_stages = std::min({kMaxStages, int(kRingBytes / stage_bytes), (p.segment + kStageK - 1) / kStageK});
  const dim3 grid(blocks_for(p.num_outputs, kTileOutputs * p.row_tiles), unsigned(num_segments));
  size_t shared_bytes = size_t(p.num_stages) * stage_bytes;
  if (grid.x * grid.y <= unsigned(state.num_multiprocessors))
    shared_bytes = num_segments > 1 ? kRowParallelBytes : kColumnParallelBytes;
  const int warps = p.row_tiles * token_warps(kTokens) + copying_warps(kTokens) + kWeightWarps;
  launch_early(ctx, few_tokens_kernel<T, kTokens, kGated>, grid, 32 * unsigned(warps), shared_bytes, p);
  check_launch("linear");
}

template <bool kGated, class T>
void launch_for_tokens(Context& ctx, const FewParams<T>& p, int num_segments) {
  p.num_tokens <= 8    ? launch<T, 8, kGated>(ctx, p, num_segments)
  : p.num_tokens <= 16 ? launch<T, 16, kGated>(ctx, p, num_segments)
  : p.num_tokens <= 32 ? launch<T, 32, kGated>(ctx, p, num_segments)
                       : launch<T, 64, kGated>(ctx, p, num_segments);
}

template <class T, bool kGated>
bool allow_ring() {
  for (auto* kernel : {few_tokens_kernel<T, 8, kGated>, few_tokens_kernel<T, 16, kGated>,
                       few_tokens_kernel<T, 32, kGated>, few_tokens_kernel<T, 64, kGated>})
    if (cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, int(kRowParallelBytes)) !=
        cudaSuccess) {
      cudaGetLastError();  // it would be taken for the next op's
      return false;
    }
  return true;
}

bool has_kernel(const Context& ctx, const Tensor& x, const Weight& weight, int64_t segment) {
  const auto of_pieces = [](const void* data) { return reinterpret_cast<uint64_t>(data) % 16 == 0; };
  return state_of(ctx).has_few_products && segment > 0 && x.shape[0] <= kFewTokens &&
         weight.out_features <= kFewRows && weight.dtype == x.dtype && segment % 8 == 0 &&
         x.stride[0] % 8 == 0 && of_pieces(x.data) && of_pieces(weight.data);
}

template <class T>
FewParams<T> few_params(const Tensor& out, const Tensor& x, const Weight& weight, const Tensor& bias) {
  const bool segments = out.rank == 3;
  return {.out = out.data,
          .x = x.ptr<T>(),
          .weight = static_cast<const T*>(weight.data),
          .bias = bias.defined() ? bias.ptr<float>() : nullptr,
          .num_tokens = int(x.shape[0]),
          .num_outputs = int(out.shape[segments ? 2 : 1]),
          .segment = int(x.shape[1] / (segments ? out.shape[0] : 1)),
          .k = x.shape[1],
          .x_stride = x.stride[0],
          .out_stride = out.stride[segments ? 1 : 0],
          .segment_stride = segments ? out.stride[0] : 0,
          .is_f32 = out.dtype == DType::kF32};
}

template <class Body>
void with_16_bits(DType dtype, Body&& body) {
  dtype == DType::kBF16 ? body(Bf16{}) : body(F16{});
}

}  // namespace

bool linear_few(Context& ctx, const LinearArgs& a) {
  const int64_t num_segments = a.out.rank == 3 ? a.out.shape[0] : 1;
  if (!has_kernel(ctx, a.x, a.weight, a.x.shape[1] / num_segments)) return false;
  with_16_bits(a.x.dtype, [&]<class T>(T) {
    launch_for_tokens<false>(ctx, few_params<T>(a.out, a.x, a.weight, a.bias), int(num_segments));
  });
  return true;
}

void gated_linear(Context& ctx, const GatedLinearArgs& a) {
  if (a.out.shape[0] == 0 || a.out.shape[1] == 0) return;
  if (!has_kernel(ctx, a.x, a.weight, a.x.shape[1])) return gated_linear_by_single_ops(ctx, a);
  with_16_bits(a.x.dtype, [&]<class T>(T) {
    launch_for_tokens<true>(ctx, few_params<T>(a.out, a.x, a.weight, a.bias), 1);
  });
}

bool prepare_linear_few() {
  return allow_ring<Bf16, false>() && allow_ring<Bf16, true>() && allow_ring<F16, false>() &&
         allow_ring<F16, true>();
}

}  // namespace nanovllm::cuda
