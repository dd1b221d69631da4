// Products of few tokens (ops/linear.h) on Hopper: reading the weights is most of their time, and it begins before the kernel that
// makes x is complete (launch.cuh).
//
// A thread block takes tiles of 16 to 64 rows of one segment's weights, one after the other, and all tokens. One warp has the copy
// engine bring weights, one tokens, 128 k at a time, each through a ring of its own that goes on over the tiles; the others, a warp
// 16 rows and all or half of the tokens, run the chain: mma.sync m16n8k16 over K in order from zero, weights as the first
// operand (which is first changes no bit). Hopper's wgmma gives the same bits, and takes twice as long for each step of a chain.
#include "ops/cuda/bulk_copy.cuh"
#include "ops/cuda/kernels.cuh"
#include "ops/cuda/launch.cuh"
#include "ops/cuda/linear_few.cuh"
#include "ops/cuda/mma.cuh"
#include "ops/cuda/silu_and_mul.cuh"
#include "ops/cuda/tensor_map.h"

namespace nanovllm::cuda {
namespace {

constexpr int kBoxK = 64, kStageBoxes = 2, kStageK = kStageBoxes * kBoxK, kRowBytes = kStageK * 2;
constexpr int kMaxStages = 16, kMaxRowTiles = 4;

constexpr int token_warps(int tokens) { return tokens >= 32 ? 2 : 1; }  // that share 16 rows

// What a thread block asks for of shared memory, as measured with whole steps. Up to 8 tokens blocks of two products in a row share a
// multiprocessor, so that the second's weights are on their way early; with more they would disturb each other's reading of tokens,
// and so much is asked for that each has a multiprocessor of its own, as have blocks whose weights do not fit.
constexpr int kSharingBytes = 96 << 10, kAloneBytes = 113 << 10, kLongBytes = 144 << 10;
constexpr int kTokenBytes = 64 << 10;  // of these, at most so much for tokens, where weights could use it

template <class T>
struct FewParams {
  CUtensorMap weight_map, x_map;
  void* out;
  const float* bias;
  int num_outputs, num_tokens, segment;
  int64_t out_stride, segment_stride;
  bool is_f32;  // out
  // Of all segments, of one; of a tile: weight rows, and outputs, which of a gated product are half as many: of 16 rows 8 are of
  // gate and 8 of up, so that a thread has both of an output.
  int num_tiles, segment_tiles, rows, tile_outputs;
  int num_weight_stages, num_x_stages;
};

#if __CUDA_ARCH__ >= 900

constexpr int kSteps = kStageK / 16;

struct Ring {  // where a warp is in it
  int stage = 0;
  uint32_t parity = 0;
  __device__ void advance(int num_stages) {
    if (++stage == num_stages) stage = 0, parity ^= 1;
  }
};

struct Barriers {
  uint64_t full[kMaxStages], empty[kMaxStages];

  __device__ void init(int num_stages, int num_readers) {
    for (int i = 0; i < num_stages; ++i) {
      init_barrier(&full[i], 1);
      init_barrier(&empty[i], num_readers);
    }
  }
};

struct Tile {
  int first_out, segment;
};

// This thread block's tiles, one after the other.
template <class T, class Body>
__device__ void for_each_tile(const FewParams<T>& p, Body&& body) {
  for (int i = int(blockIdx.x); i < p.num_tiles; i += int(gridDim.x))
    body(Tile{i % p.segment_tiles * p.tile_outputs, i / p.segment_tiles});
}

// The lane that has the copy engine fill a ring with all that these tiles need: copy(tile, k, shared address, barrier) brings a box.
template <class T, class Copy>
__device__ void fill(const FewParams<T>& p, Barriers& barriers, int num_stages, uint32_t ring,
                     uint32_t stage_bytes, Copy&& copy) {
  Ring at;
  for_each_tile(p, [&](const Tile& tile) {
    for (int first_k = 0; first_k < p.segment; first_k += kStageK) {
      wait_for_phase(&barriers.empty[at.stage], at.parity ^ 1);  // at once in the first round
      expect_bytes(&barriers.full[at.stage], stage_bytes);
      for (int box = 0; box < kStageBoxes; ++box)
        copy(tile, first_k + box * kBoxK,
             ring + uint32_t(at.stage) * stage_bytes + uint32_t(box) * (stage_bytes / kStageBoxes),
             &barriers.full[at.stage]);
      at.advance(num_stages);
    }
  });
}

// Where a stage of so many rows has the 16-byte piece `piece` of a row: rows of a box are 128 bytes, and pieces change places by row
// (tensor_map.h), so that ldmatrix finds eight rows in different banks.
__device__ uint32_t piece_at(int rows, int row, int piece) {
  return uint32_t((piece / 8 * rows + row) * kBoxK * 2 + ((piece % 8) ^ (row % 8)) * 16);
}

// One step's 16 k of 16 rows and 8 kTiles of kTokens tokens, pieces 2 step and 2 step + 1 of a stage.
template <int kTokens, int kTiles>
struct Operands {
  uint32_t a[4], b[kTiles][2];

  __device__ void load(uint32_t weights, int rows, int first_row, uint32_t x, int first_token, int step) {
    const int lane = threadIdx.x % 32;
    load_4_matrices(a, weights + piece_at(rows, first_row + lane % 16, 2 * step + lane / 16));
    if constexpr (kTiles == 1) {
      load_2_matrices(b[0][0], b[0][1],
                      x + piece_at(kTokens, first_token + lane % 8, 2 * step + lane / 8 % 2));
    } else {
#pragma unroll
      for (int n = 0; n < kTiles; n += 2) {
        uint32_t two[4];
        load_4_matrices(two, x + piece_at(kTokens, first_token + n * 8 + lane / 16 * 8 + lane % 8,
                                          2 * step + lane / 8 % 2));
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
__global__ void __launch_bounds__(320, 1) few_tokens_kernel(const __grid_constant__ FewParams<T> p) {
#if __CUDA_ARCH__ >= 900
  extern __shared__ __align__(1024) unsigned char rings[];
  __shared__ Barriers weight_barriers, x_barriers;
  let_next_start();
  const int warp = int(threadIdx.x) / 32, lane = int(threadIdx.x) % 32;
  const int num_compute_warps = int(blockDim.x) / 32 - 2, rows = p.rows;
  const uint32_t weight_bytes = uint32_t(rows) * kRowBytes, x_bytes = kTokens * kRowBytes;
  const uint32_t weight_ring = shared_address(rings),
                 x_ring = weight_ring + uint32_t(p.num_weight_stages) * weight_bytes;
  if (threadIdx.x == 0) {
    weight_barriers.init(p.num_weight_stages, num_compute_warps);
    x_barriers.init(p.num_x_stages, num_compute_warps);
    publish_barriers();
  }
  __syncthreads();
  if (warp == num_compute_warps) {
    if (lane != 0) return;
    prefetch_map(p.weight_map);
    fill(p, weight_barriers, p.num_weight_stages, weight_ring, weight_bytes,
         [&](const Tile& tile, int k, uint32_t to, uint64_t* barrier) {
           if constexpr (kGated)
             copy_box(to, p.weight_map, k, 0, 0, tile.first_out / 8, barrier);
           else
             copy_box(to, p.weight_map, k, tile.segment, tile.first_out, barrier);
         });
    return;
  }
  if (warp == num_compute_warps + 1) {
    if (lane != 0) return;
    prefetch_map(p.x_map);
    wait_for_previous();
    fill(p, x_barriers, p.num_x_stages, x_ring, x_bytes,
         [&](const Tile& tile, int k, uint32_t to, uint64_t* barrier) {
           copy_box(to, p.x_map, k, tile.segment, 0, barrier);
         });
    return;
  }

  constexpr int kTokenWarps = token_warps(kTokens), kTiles = kTokens / 8 / kTokenWarps;
  const int first_row = warp / kTokenWarps * 16, warp_token = warp % kTokenWarps * (8 * kTiles);
  Operands<kTokens, kTiles> operands[2];  // loaded one step ahead of their use
  Ring weights, x;
  const auto load = [&](Operands<kTokens, kTiles>& to, int i) {
    to.load(weight_ring + uint32_t(weights.stage) * weight_bytes, rows, first_row,
            x_ring + uint32_t(x.stage) * x_bytes, warp_token, i);
  };
  const auto wait_for_stage = [&] {
    wait_for_phase(&weight_barriers.full[weights.stage], weights.parity);
    wait_for_phase(&x_barriers.full[x.stage], x.parity);
  };
  for_each_tile(p, [&](const Tile& tile) {
    float sums[kTiles][4] = {};
    wait_for_stage();
    load(operands[0], 0);
    for (int first_k = 0; first_k < p.segment; first_k += kStageK) {
#pragma unroll
      for (int i = 0; i < kSteps; ++i) {  // behind the segment's end are zeros, which change no sum
        if (i + 1 < kSteps) {
          load(operands[(i + 1) % 2], i + 1);
        } else {
          __syncwarp();
          if (lane == 0) {  // all of the stage is loaded
            arrive(&weight_barriers.empty[weights.stage]);
            arrive(&x_barriers.empty[x.stage]);
          }
          weights.advance(p.num_weight_stages);
          x.advance(p.num_x_stages);
          if (first_k + kStageK < p.segment) {
            wait_for_stage();
            load(operands[0], 0);
          }
        }
        operands[i % 2].template add_to<T>(sums);
      }
    }

    const auto with_bias = [&](float sum, int row) {
      return p.bias && tile.segment == 0 ? sum + p.bias[row] : sum;
    };
#pragma unroll
    for (int n = 0; n < kTiles; ++n)
#pragma unroll
      for (int i = 0; i < (kGated ? 2 : 4); ++i) {
        const int out = tile.first_out + (kGated ? first_row / 2 : first_row) + lane / 4 + i / 2 * 8,
                  token = warp_token + n * 8 + lane % 4 * 2 + i % 2;
        if (out >= p.num_outputs || token >= p.num_tokens) continue;
        const int64_t at = tile.segment * p.segment_stride + token * p.out_stride + out;
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
  });
#endif
}

struct ProductOf {  // weight and x
  const void *x, *weight;
  DType dtype;
  int num_tokens, num_outputs, num_segments, segment;
  int64_t k, x_stride;
};

// Rows of a tile, by 16: such that the multiprocessor with most rows has least.
int choose_row_tiles(int num_row_tiles, int num_segments, int num_multiprocessors) {
  int best = 0, least = 0;
  for (int count = kMaxRowTiles; count >= 1; --count) {
    const int tiles = (num_row_tiles + count - 1) / count * num_segments;
    const int rows = (tiles + num_multiprocessors - 1) / num_multiprocessors * count;
    if (best == 0 || rows < least) best = count, least = rows;
  }
  return best;
}

template <class T, int kTokens, bool kGated>
bool launch(Context& ctx, FewParams<T> p, const ProductOf& o) {
  constexpr int kTileOutputs = kGated ? 8 : 16;
  const int num_multiprocessors = state_of(ctx).num_multiprocessors;
  const int row_tiles = choose_row_tiles((o.num_outputs + kTileOutputs - 1) / kTileOutputs, o.num_segments,
                                         num_multiprocessors);
  p.rows = 16 * row_tiles;
  p.tile_outputs = kTileOutputs * row_tiles;
  p.segment_tiles = int(blocks_for(o.num_outputs, p.tile_outputs));
  p.num_tiles = p.segment_tiles * o.num_segments;
  const int most_tiles = int(blocks_for(p.num_tiles, num_multiprocessors));  // of a block

  const int num_steps = (o.segment + kStageK - 1) / kStageK;
  const int weight_bytes = p.rows * kRowBytes, x_bytes = kTokens * kRowBytes;
  const bool is_long = most_tiles > 1 || num_steps * weight_bytes > kSharingBytes;
  const int budget = is_long ? kLongBytes : kTokens <= 8 ? kSharingBytes : kAloneBytes;
  const auto stages_in = [&](int bytes, int stage_bytes) {
    const int most = is_long ? kMaxStages : std::min(num_steps, kMaxStages);
    return std::clamp(bytes / stage_bytes, std::min(2, most), most);
  };
  p.num_weight_stages = stages_in(budget - std::min(num_steps * x_bytes, kTokenBytes), weight_bytes);
  p.num_x_stages = stages_in(budget - p.num_weight_stages * weight_bytes, x_bytes);

  const int64_t k = o.k, segment = o.segment, segments = o.num_segments;
  const auto x_map = make_tensor_map(o.dtype, o.x, {segment, segments, o.num_tokens}, {segment, o.x_stride},
                                     {kBoxK, 1, kTokens});
  const auto weight_map = kGated ? make_tensor_map(o.dtype, o.weight, {k, 8, 2, o.num_outputs / 8},
                                                   {k, o.num_outputs * k, 8 * k}, {kBoxK, 8, 2, row_tiles})
                                 : make_tensor_map(o.dtype, o.weight, {segment, segments, o.num_outputs},
                                                   {segment, k}, {kBoxK, 1, p.rows});
  if (!x_map || !weight_map) return false;
  p.x_map = *x_map;
  p.weight_map = *weight_map;
  launch_early(ctx, few_tokens_kernel<T, kTokens, kGated>, blocks_for(p.num_tiles, most_tiles),
               32 * unsigned(row_tiles * token_warps(kTokens) + 2), size_t(budget), p);
  check_launch("linear");
  return true;
}

template <bool kGated, class T>
bool launch_for_tokens(Context& ctx, const FewParams<T>& p, const ProductOf& o) {
  return o.num_tokens <= 8    ? launch<T, 8, kGated>(ctx, p, o)
         : o.num_tokens <= 16 ? launch<T, 16, kGated>(ctx, p, o)
         : o.num_tokens <= 32 ? launch<T, 32, kGated>(ctx, p, o)
                              : launch<T, 64, kGated>(ctx, p, o);
}

template <class T, bool kGated>
bool allow_rings() {
  for (auto* kernel : {few_tokens_kernel<T, 8, kGated>, few_tokens_kernel<T, 16, kGated>,
                       few_tokens_kernel<T, 32, kGated>, few_tokens_kernel<T, 64, kGated>})
    if (cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, kLongBytes) !=
        cudaSuccess) {
      cudaGetLastError();  // it would be taken for the next op's
      return false;
    }
  return true;
}

bool has_kernel(const Context& ctx, const ProductOf& o, DType weight_dtype) {
  const auto of_pieces = [](const void* data) { return reinterpret_cast<uint64_t>(data) % 16 == 0; };
  return state_of(ctx).has_few_products && o.segment > 0 && o.num_tokens <= kFewTokens &&
         o.num_outputs <= kFewRows && weight_dtype == o.dtype && o.segment % 8 == 0 && o.x_stride % 8 == 0 &&
         of_pieces(o.x) && of_pieces(o.weight);
}

ProductOf product_of(const Tensor& x, const Weight& weight, int64_t num_segments, int64_t num_outputs) {
  return {.x = x.data,
          .weight = weight.data,
          .dtype = x.dtype,
          .num_tokens = int(x.shape[0]),
          .num_outputs = int(num_outputs),
          .num_segments = int(num_segments),
          .segment = int(x.shape[1] / num_segments),
          .k = x.shape[1],
          .x_stride = x.stride[0]};
}

template <class T>
FewParams<T> few_params(const Tensor& out, const Tensor& bias, const ProductOf& o) {
  const bool segments = out.rank == 3;
  FewParams<T> p{};
  p.out = out.data;
  p.bias = bias.defined() ? bias.ptr<float>() : nullptr;
  p.num_outputs = o.num_outputs;
  p.num_tokens = o.num_tokens;
  p.segment = o.segment;
  p.out_stride = out.stride[segments ? 1 : 0];
  p.segment_stride = segments ? out.stride[0] : 0;
  p.is_f32 = out.dtype == DType::kF32;
  return p;
}

// → whether it was done
template <bool kGated>
bool multiply(Context& ctx, const Tensor& out, const Tensor& bias, const ProductOf& o) {
  const auto of_type = [&]<class T>(T) {
    return launch_for_tokens<kGated>(ctx, few_params<T>(out, bias, o), o);
  };
  return o.dtype == DType::kBF16 ? of_type(Bf16{}) : of_type(F16{});
}

}  // namespace

bool linear_few(Context& ctx, const LinearArgs& a) {
  const ProductOf o = product_of(a.x, a.weight, a.out.rank == 3 ? a.out.shape[0] : 1, a.weight.out_features);
  return has_kernel(ctx, o, a.weight.dtype) && multiply<false>(ctx, a.out, a.bias, o);
}

void gated_linear(Context& ctx, const GatedLinearArgs& a) {
  if (a.out.shape[0] == 0 || a.out.shape[1] == 0) return;
  const ProductOf o = product_of(a.x, a.weight, 1, a.out.shape[1]);
  const bool done =
      o.num_outputs % 8 == 0 && has_kernel(ctx, o, a.weight.dtype) && multiply<true>(ctx, a.out, a.bias, o);
  if (!done) gated_linear_by_single_ops(ctx, a);
}

bool prepare_linear_few() {
  return has_tensor_maps() && allow_rings<Bf16, false>() && allow_rings<Bf16, true>() &&
         allow_rings<F16, false>() && allow_rings<F16, true>();
}

}  // namespace nanovllm::cuda
