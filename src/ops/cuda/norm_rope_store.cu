// Norms of heads, RoPE and the write into the cache in one pass (ops/norm_rope_store.h): q, k and v are read once, q and the
// cache written once. Half a warp a head, as in rms_norm.cu, and the same roundings as the single ops.
#include "ops/cuda/cache_layout.cuh"
#include "ops/cuda/kernels.cuh"
#include "ops/cuda/launch.cuh"
#include "ops/cuda/norm.cuh"

namespace nanovllm::cuda {
namespace {

constexpr int kHeadsPerBlock = 8, kThreads = kLanes * kHeadsPerBlock;

template <class T>
struct Params {
  T *q, *k_cache, *v_cache;
  const T *k, *v;
  const float *q_weight, *k_weight, *cos_sin;
  const int32_t *positions, *slots;
  int64_t q_stride, q_head_stride, k_stride, k_head_stride, v_stride, v_head_stride;
  int num_heads, num_kv_heads, block_size;
  float eps;
};

template <class T, int kHeadDim>
__global__ void norm_rope_store_kernel(Params<T> p) {
  let_next_start();
  constexpr int kEach = kHeadDim / kLanes;  // elements of a lane: lane, lane + 16, ...
  const int lane = threadIdx.x % kLanes, head = blockIdx.y * kHeadsPerBlock + threadIdx.x / kLanes;
  const int64_t t = blockIdx.x;
  const bool is_q = head < p.num_heads, is_k = !is_q && head < p.num_heads + p.num_kv_heads;
  const int kv_head = is_q ? 0 : (head - p.num_heads) % p.num_kv_heads;
  const bool active = head < p.num_heads + 2 * p.num_kv_heads;  // all lanes shuffle
  const T* from = is_q   ? p.q + t * p.q_stride + head * p.q_head_stride
                  : is_k ? p.k + t * p.k_stride + kv_head * p.k_head_stride
                         : p.v + t * p.v_stride + kv_head * p.v_head_stride;

  // All but q, k and v was there before the step: it comes while they are made.
  const float* weight = is_q ? p.q_weight : is_k ? p.k_weight : nullptr;
  const float* table = p.cos_sin + int64_t(p.positions[t]) * kHeadDim;
  const int64_t slot = p.slots[t];
  float weights[kEach] = {}, turns[kEach] = {};  // cosines, then sines
  if (is_q || is_k) {
#pragma unroll
    for (int j = 0; j < kEach; ++j) {
      if (weight) weights[j] = weight[j * kLanes + lane];
      turns[j] = table[j * kLanes + lane];
    }
  }
  wait_for_previous();

  T x[kEach];
#pragma unroll
  for (int j = 0; j < kEach; ++j) x[j] = active ? from[j * kLanes + lane] : T(0.0f);
  float sum = 0;
#pragma unroll
  for (int j = 0; j < kEach; ++j) sum = __fmaf_rn(to_float(x[j]), to_float(x[j]), sum);
  const float inverse = inverse_rms(sum_of_lanes(sum), kHeadDim, p.eps);
  if (weight) {
#pragma unroll
    for (int j = 0; j < kEach; ++j) x[j] = normalised(to_float(x[j]), inverse, weights[j], T{});
  }
  if (is_q || is_k) {
#pragma unroll
    for (int j = 0; j < kEach / 2; ++j) {
      const float c = turns[j], s = turns[j + kEach / 2];
      const float x1 = to_float(x[j]), x2 = to_float(x[j + kEach / 2]);
      x[j] = round_to<T>(x1 * c - x2 * s);
      x[j + kEach / 2] = round_to<T>(x2 * c + x1 * s);
    }
  }
  if (!active || (!is_q && slot < 0)) return;
  T* to = is_q ? p.q + t * p.q_stride + head * p.q_head_stride : is_k ? p.k_cache : p.v_cache;
  const int64_t cache_head = slot / p.block_size * p.num_kv_heads + kv_head;
  const int row = int(slot % p.block_size);
#pragma unroll
  for (int j = 0; j < kEach; ++j) {
    const int d = j * kLanes + lane;
    to[is_q ? d : cache_element<T>(cache_head, p.block_size, kHeadDim, row, d)] = x[j];
  }
}

template <class T, int kHeadDim>
void launch(Context& ctx, const NormRopeStoreArgs& a) {
  const int num_heads = int(a.q.shape[1]), num_kv_heads = int(a.k.shape[1]);
  const dim3 grid(unsigned(a.q.shape[0]), blocks_for(num_heads + 2 * num_kv_heads, kHeadsPerBlock));
  launch_early(ctx, norm_rope_store_kernel<T, kHeadDim>, grid, kThreads, 0,
               Params<T>{.q = a.q.ptr<T>(),
                         .k_cache = static_cast<T*>(a.cache.k),
                         .v_cache = static_cast<T*>(a.cache.v),
                         .k = a.k.ptr<T>(),
                         .v = a.v.ptr<T>(),
                         .q_weight = a.q_weight.defined() ? a.q_weight.ptr<float>() : nullptr,
                         .k_weight = a.q_weight.defined() ? a.k_weight.ptr<float>() : nullptr,
                         .cos_sin = a.cos_sin.ptr<float>(),
                         .positions = a.positions.ptr<int32_t>(),
                         .slots = a.slot_mapping.ptr<int32_t>(),
                         .q_stride = a.q.stride[0],
                         .q_head_stride = a.q.stride[1],
                         .k_stride = a.k.stride[0],
                         .k_head_stride = a.k.stride[1],
                         .v_stride = a.v.stride[0],
                         .v_head_stride = a.v.stride[1],
                         .num_heads = num_heads,
                         .num_kv_heads = num_kv_heads,
                         .block_size = a.cache.block_size,
                         .eps = a.eps});
}

}  // namespace

void norm_rope_store(Context& ctx, const NormRopeStoreArgs& a) {
  if (a.q.shape[0] == 0) return;
  const int64_t head_dim = a.q.shape[2];
  const bool has_kernel =
      (head_dim == 32 || head_dim == 64 || head_dim == 128) && a.cos_sin.shape[1] == head_dim;
  if (!has_kernel) return norm_rope_store_by_single_ops(ctx, a);
  with_dtype(a.q.dtype, [&]<class T>(T) {
    head_dim == 32 ? launch<T, 32>(ctx, a) : head_dim == 64 ? launch<T, 64>(ctx, a) : launch<T, 128>(ctx, a);
  });
  check_launch("norm_rope_store");
}

}  // namespace nanovllm::cuda
