// Linear layers (ops/linear.h), and weights: row-major, as a checkpoint has them.
#include "ops/cuda/cuda_ops.h"
#include "ops/cuda/kernels.cuh"
#include "ops/cuda/linear_few.cuh"
#include "ops/cuda/mma.cuh"

namespace nanovllm::cuda {
namespace {

struct Shape {  // of one product
  int64_t num_tokens, out_features, k, segment, x_stride, out_stride, segment_stride;
};

Shape shape_of(const LinearArgs& a) {
  const bool segments = a.out.rank == 3;
  const int64_t num_segments = segments ? a.out.shape[0] : 1, k = a.x.shape[1];
  return {a.x.shape[0],
          a.weight.out_features,
          k,
          k / num_segments,
          a.x.stride[0],
          a.out.stride[segments ? 1 : 0],
          segments ? a.out.stride[0] : 0};
}

int64_t num_segments_of(const LinearArgs& a) { return a.out.rank == 3 ? a.out.shape[0] : 1; }

// ---- float32: a thread an output, one chain in order of k ----

constexpr int kTileOutputs = 32, kTileTokens = 8, kTileK = 32;

template <class W>
__global__ void linear_f32_kernel(float* out, const float* x, const W* weight, const float* bias, Shape s) {
  __shared__ float x_tile[kTileTokens][kTileK];
  __shared__ float w_tile[kTileOutputs][kTileK + 1];
  const int tx = threadIdx.x, ty = threadIdx.y;
  const int64_t first_n = blockIdx.y * int64_t(kTileOutputs), first_t = blockIdx.x * int64_t(kTileTokens);
  const int64_t begin = blockIdx.z * s.segment, end = begin + s.segment;
  const int64_t n = first_n + tx, t = first_t + ty;
  float sum = 0;
  for (int64_t k = begin; k < end; k += kTileK) {
    const int count = int(end - k < kTileK ? end - k : kTileK);
    __syncthreads();
    if (tx < count && t < s.num_tokens) x_tile[ty][tx] = x[t * s.x_stride + k + tx];
    for (int row = ty; row < kTileOutputs; row += kTileTokens)
      if (tx < count && first_n + row < s.out_features)
        w_tile[row][tx] = to_float(weight[(first_n + row) * s.k + k + tx]);
    __syncthreads();
    for (int i = 0; i < count; ++i) sum = __fmaf_rn(x_tile[ty][i], w_tile[tx][i], sum);
  }
  if (n >= s.out_features || t >= s.num_tokens) return;
  if (bias && blockIdx.z == 0) sum += bias[n];
  out[blockIdx.z * s.segment_stride + t * s.out_stride + n] = sum;
}

// ---- the chain of m16n8k16 ----

template <class T>
__device__ uint32_t pair_at(const T* row, int64_t k, int64_t end, bool valid) {
  const auto bits = [&](int64_t i) {
    return valid && i < end ? uint32_t(reinterpret_cast<const uint16_t*>(row)[i]) : 0u;
  };
  return bits(k) | bits(k + 1) << 16;
}

template <class T, class Out>
__global__ void chain_kernel(Out* out, const T* x, const T* weight, const float* bias, Shape s) {
  const int lane = threadIdx.x, group = lane / 4, pair = lane % 4 * 2;
  const int64_t n = blockIdx.y * int64_t(8) + group, t = blockIdx.x * int64_t(16) + group;
  const int64_t begin = blockIdx.z * s.segment, end = begin + s.segment;
  const T* w = weight + n * s.k;
  const T *x0 = x + t * s.x_stride, *x1 = x0 + 8 * s.x_stride;
  const bool has_n = n < s.out_features, has_0 = t < s.num_tokens, has_1 = t + 8 < s.num_tokens;
  float sum[4] = {};
  for (int64_t k = begin; k < end; k += 16) {
    const uint32_t a[4] = {pair_at(x0, k + pair, end, has_0), pair_at(x1, k + pair, end, has_1),
                           pair_at(x0, k + pair + 8, end, has_0), pair_at(x1, k + pair + 8, end, has_1)};
    mma<T>(sum, a, pair_at(w, k + pair, end, has_n), pair_at(w, k + pair + 8, end, has_n));
  }
  const int64_t first_n = blockIdx.y * int64_t(8) + pair;
  for (int i = 0; i < 4; ++i) {
    const int64_t row = t + i / 2 * 8, column = first_n + i % 2;
    if (row >= s.num_tokens || column >= s.out_features) continue;
    const float value = bias && blockIdx.z == 0 ? sum[i] + bias[column] : sum[i];
    out[blockIdx.z * s.segment_stride + row * s.out_stride + column] = round_to<Out>(value);
  }
}

template <class Out>
__global__ void add_bias_kernel(Out* out, const float* sums, const float* bias, int64_t width,
                                int64_t out_stride, int64_t sums_stride) {
  const int64_t t = blockIdx.x;
  for (int64_t i = threadIdx.x; i < width; i += blockDim.x)
    out[t * out_stride + i] = round_to<Out>(sums[t * sums_stride + i] + bias[i]);
}

__global__ void count_differing_kernel(const uint16_t* a, const uint16_t* b, int64_t row, int64_t a_stride,
                                       int64_t b_stride, unsigned* count) {
  for (int64_t i = threadIdx.x; i < row; i += blockDim.x)
    if (a[blockIdx.x * a_stride + i] != b[blockIdx.x * b_stride + i]) atomicAdd(count, 1u);
}

// Whether the first rows of each segment of `sums` are those of the plain chain.
bool is_the_chain(Context& ctx, const LinearArgs& a, const Tensor& sums) {
  const int64_t num_segments = sums.rank == 3 ? sums.shape[0] : 1,
                num_rows = std::min<int64_t>(16, a.x.shape[0]);
  const int64_t width = a.weight.out_features,
                halves = int64_t(dtype_bytes(sums.dtype)) / 2;  // 16-bit words an element
  const DeviceBuffer memory(*ctx.ops.device, size_t(num_segments * num_rows * width * halves * 2), "linear"),
      count(*ctx.ops.device, sizeof(unsigned), "linear");
  const Tensor want = sums.rank == 3
                          ? Tensor::view(memory.data(), sums.dtype, {num_segments, num_rows, width})
                          : Tensor::view(memory.data(), sums.dtype, {num_rows, width});
  linear_chain(ctx, {.out = want, .x = a.x.slice(0, num_rows), .weight = a.weight, .bias = {}});
  for (int64_t s = 0; s < num_segments; ++s) {
    const Tensor got = sums.rank == 3 ? sums[s] : sums, right = sums.rank == 3 ? want[s] : want;
    count_differing_kernel<<<unsigned(num_rows), 256, 0, stream_of(ctx)>>>(
        got.ptr<uint16_t>(), right.ptr<uint16_t>(), width * halves, got.stride[0] * halves, width * halves,
        static_cast<unsigned*>(count.data()));
  }
  check_launch("linear");
  unsigned differing = 0;
  ctx.ops.device->download(&differing, count.data(), sizeof differing);
  return differing == 0;
}

void check_weight_dtype(const LinearArgs& a) {
  if (a.weight.dtype != a.x.dtype)
    fail(ErrorKind::kUnsupported, "linear: weight is ", dtype_name(a.weight.dtype), " and x ",
         dtype_name(a.x.dtype), ", want one dtype, or float32 activations (--dtype float32)");
}

}  // namespace

size_t weight_bytes(DType dtype, int64_t out_features, int64_t in_features) {
  return size_t(out_features) * size_t(in_features) * dtype_bytes(dtype);
}

void store_weight(Context& ctx, const StoreWeightArgs& a) {
  const size_t row_bytes = weight_bytes(a.weight.dtype, 1, a.rows.in_features);
  state_of(ctx).uploads.store(static_cast<std::byte*>(a.weight.data) + size_t(a.first_row) * row_bytes,
                              a.weight.dtype, a.rows, stream_of(ctx));
}

void linear_f32(Context& ctx, const LinearArgs& a) {
  const Shape s = shape_of(a);
  if (s.num_tokens == 0 || s.out_features == 0) return;
  const dim3 grid(blocks_for(s.num_tokens, kTileTokens), blocks_for(s.out_features, kTileOutputs),
                  unsigned(num_segments_of(a)));
  with_dtype(a.weight.dtype, [&]<class W>(W) {
    linear_f32_kernel<W><<<grid, dim3(kTileOutputs, kTileTokens), 0, stream_of(ctx)>>>(
        a.out.ptr<float>(), a.x.ptr<float>(), static_cast<const W*>(a.weight.data),
        a.bias.defined() ? a.bias.ptr<float>() : nullptr, s);
  });
  check_launch("linear");
}

void linear_chain(Context& ctx, const LinearArgs& a) {
  check_weight_dtype(a);
  const Shape s = shape_of(a);
  if (s.num_tokens == 0 || s.out_features == 0) return;
  const dim3 grid(blocks_for(s.num_tokens, 16), blocks_for(s.out_features, 8), unsigned(num_segments_of(a)));
  const auto launch = [&]<class T, class Out>(T, Out) {
    chain_kernel<T, Out><<<grid, 32, 0, stream_of(ctx)>>>(
        a.out.ptr<Out>(), a.x.ptr<T>(), static_cast<const T*>(a.weight.data),
        a.bias.defined() ? a.bias.ptr<float>() : nullptr, s);
  };
  const bool f32_out = a.out.dtype == DType::kF32;
  if (a.x.dtype == DType::kBF16)
    f32_out ? launch(Bf16{}, float{}) : launch(Bf16{}, Bf16{});
  else
    f32_out ? launch(F16{}, float{}) : launch(F16{}, F16{});
  check_launch("linear");
}

// A bias is added in float32, before the sum is rounded: by a pass of its own behind the library's product.
void linear_mma(Context& ctx, const LinearArgs& a) {
  check_weight_dtype(a);
  const Shape s = shape_of(a);
  if (s.num_tokens == 0 || s.out_features == 0) return;
  if (linear_few(ctx, a)) return;
  const Arena::Scope scope(ctx.arena);
  Tensor sums = a.out;
  if (a.bias.defined() && a.out.dtype != DType::kF32)
    sums = ctx.arena.make(DType::kF32, {s.num_tokens, s.out_features});
  const Product product{.x = a.x.data,
                        .weight = a.weight.data,
                        .out = sums.data,
                        .dtype = a.x.dtype,
                        .out_dtype = sums.dtype,
                        .num_tokens = s.num_tokens,
                        .out_features = s.out_features,
                        .k = s.k,
                        .x_stride = s.x_stride,
                        .out_stride = sums.stride[sums.rank == 3 ? 1 : 0],
                        .out_batch_stride = s.segment_stride,
                        .num_batches = int(num_segments_of(a))};
  if (!state_of(ctx).lt.multiply(product, stream_of(ctx), [&] { return is_the_chain(ctx, a, sums); })) {
    linear_chain(ctx, a);
    return;
  }
  if (!a.bias.defined()) return;
  const auto add = [&]<class Out>(Out) {  // to the first segment
    add_bias_kernel<Out><<<unsigned(s.num_tokens), 256, 0, stream_of(ctx)>>>(
        a.out.ptr<Out>(), sums.ptr<float>(), a.bias.ptr<float>(), s.out_features, s.out_stride,
        product.out_stride);
  };
  with_dtype(a.out.dtype, add);
  check_launch("linear");
}

}  // namespace nanovllm::cuda
