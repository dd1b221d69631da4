// RMSNorm (ops/rms_norm.h): a row's squares are 16 chains, summed by a fixed tree, whatever else runs.
#include "ops/cuda/kernels.cuh"
#include "ops/cuda/launch.cuh"
#include "ops/cuda/norm.cuh"

namespace nanovllm::cuda {
namespace {

constexpr int kSmallThreads = 128;  // 8 short rows
constexpr int kLargeThreads = 256;  // one long row
constexpr int64_t kSmallWidth = 256;

// out and x may be the same memory: no __restrict__.
template <class T>
__device__ void scale_element(T* out, float x, float inverse, float weight, int64_t i) {
  out[i] = normalised(x, inverse, weight, T{});
}

struct Rows {  // [num_rows, heads, width], rows of heads
  int64_t heads, x_stride, x_head_stride, out_stride, out_head_stride;
};

// Half a warp a row: for heads.
template <class T>
__global__ void small_rms_norm_kernel(T* out, const T* x, const float* weight, Rows rows, int64_t num_rows,
                                      int width, float eps) {
  const int lane = threadIdx.x % kLanes;
  const int64_t row = blockIdx.x * int64_t(kSmallThreads / kLanes) + threadIdx.x / kLanes;
  const bool active = row < num_rows;
  const int64_t t = active ? row / rows.heads : 0, head = active ? row % rows.heads : 0;
  const T* from = x + t * rows.x_stride + head * rows.x_head_stride;
  T* to = out + t * rows.out_stride + head * rows.out_head_stride;
  float values[kSmallWidth / kLanes];
  float sum = 0;
#pragma unroll
  for (int j = 0; j < int(kSmallWidth / kLanes); ++j) {
    const int i = j * kLanes + lane;
    values[j] = active && i < width ? to_float(from[i]) : 0;
    if (i < width) sum = __fmaf_rn(values[j], values[j], sum);
  }
  const float inverse = inverse_rms(sum_of_lanes(sum), width, eps);
#pragma unroll
  for (int j = 0; j < int(kSmallWidth / kLanes); ++j) {
    const int i = j * kLanes + lane;
    if (active && i < width) scale_element(to, values[j], inverse, weight[i], i);
  }
}

// A row's inverse from its values in shared memory, by the first half warp, for all threads.
__device__ float inverse_of_row(const float* values, int64_t width, float eps) {
  __shared__ float inverse;
  __syncthreads();
  if (threadIdx.x < 32) {
    float sum = 0;
#pragma unroll 16
    for (int64_t i = threadIdx.x % kLanes; i < width; i += kLanes) sum = __fmaf_rn(values[i], values[i], sum);
    sum = sum_of_lanes(sum);
    if (threadIdx.x == 0) inverse = inverse_rms(sum, width, eps);
  }
  __syncthreads();
  return inverse;
}

template <class T>
__global__ void rms_norm_kernel(T* out, const T* x, const float* weight, Rows rows, int64_t width,
                                float eps) {
  extern __shared__ float values[];
  start_early();
  const int64_t t = blockIdx.x / rows.heads, head = blockIdx.x % rows.heads;
  const T* from = x + t * rows.x_stride + head * rows.x_head_stride;
  T* to = out + t * rows.out_stride + head * rows.out_head_stride;
  for (int64_t i = threadIdx.x; i < width; i += blockDim.x) values[i] = to_float(from[i]);
  const float inverse = inverse_of_row(values, width, eps);
  for (int64_t i = threadIdx.x; i < width; i += blockDim.x)
    scale_element(to, values[i], inverse, weight[i], i);
}

template <class T>
__global__ void add_rms_norm_kernel(T* out, const float* sums, T* residual, const float* weight,
                                    int num_segments, int64_t segment_stride, int64_t sums_stride,
                                    int64_t residual_stride, int64_t out_stride, int64_t width, float eps) {
  extern __shared__ float values[];
  start_early();
  const int64_t t = blockIdx.x;
  const float* s = sums + t * sums_stride;
  T* r = residual + t * residual_stride;
  for (int64_t i = threadIdx.x; i < width; i += blockDim.x) {
    float sum = s[i];
    if (num_segments >= 2) sum += s[segment_stride + i];
    if (num_segments == 4) sum += s[2 * segment_stride + i] + s[3 * segment_stride + i];
    const T rounded = round_to<T>(sum + to_float(r[i]));
    r[i] = rounded;
    values[i] = to_float(rounded);
  }
  const float inverse = inverse_of_row(values, width, eps);
  for (int64_t i = threadIdx.x; i < width; i += blockDim.x)
    scale_element(out + t * out_stride, values[i], inverse, weight[i], i);
}

// Four elements, in one access.
template <class T>
struct alignas(4 * sizeof(T)) Four {
  T at[4];
};
template <class T>
__device__ Four<T> load_four(const T* from) {
  return *reinterpret_cast<const Four<T>*>(from);
}

// The same where rows are of fours: a thread has four elements at a time, one time for each thread up to a width of 4096, and
// asks for the weight before the sum of squares is known.
template <class T>
__global__ void add_rms_norm_by_fours_kernel(T* out, const float* sums, T* residual, const float* weight,
                                             int num_segments, int64_t segment_stride, int64_t sums_stride,
                                             int64_t residual_stride, int64_t out_stride, int64_t width,
                                             float eps) {
  extern __shared__ float values[];
  const int64_t t = blockIdx.x, first = 4 * int64_t(threadIdx.x), step = 4 * int64_t(blockDim.x);
  const float* s = sums + t * sums_stride;
  T* r = residual + t * residual_stride;
  let_next_start();
  const Four<float> first_weight = first < width ? load_four(weight + first) : Four<float>{};
  wait_for_previous();
  for (int64_t i = first; i < width; i += step) {
    Four<float> part[4];
#pragma unroll
    for (int segment = 0; segment < 4; ++segment)
      if (segment < num_segments) part[segment] = load_four(s + segment * segment_stride + i);
    Four<T> x = load_four(r + i);
    Four<float> rounded;
#pragma unroll
    for (int e = 0; e < 4; ++e) {
      float sum = part[0].at[e];
      if (num_segments >= 2) sum += part[1].at[e];
      if (num_segments == 4) sum += part[2].at[e] + part[3].at[e];
      x.at[e] = round_to<T>(sum + to_float(x.at[e]));
      rounded.at[e] = to_float(x.at[e]);
    }
    *reinterpret_cast<Four<T>*>(r + i) = x;
    *reinterpret_cast<Four<float>*>(values + i) = rounded;
  }
  const float inverse = inverse_of_row(values, width, eps);
  for (int64_t i = first; i < width; i += step) {
    const Four<float> w = i == first ? first_weight : load_four(weight + i), x = load_four(values + i);
    Four<T> y;
#pragma unroll
    for (int e = 0; e < 4; ++e) y.at[e] = normalised(x.at[e], inverse, w.at[e], T{});
    *reinterpret_cast<Four<T>*>(out + t * out_stride + i) = y;
  }
}

// More than 48 KB of shared memory, what the kernel has of its own included, must be asked for.
template <class Kernel>
size_t shared_bytes(Kernel kernel, int64_t width) {
  const size_t bytes = size_t(width) * sizeof(float);
  if (bytes > size_t{47} << 10)
    check(cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, int(bytes)), "rms_norm");
  return bytes;
}

}  // namespace

void rms_norm(Context& ctx, const RmsNormArgs& a) {
  const bool has_heads = a.x.rank == 3;
  const int64_t heads = has_heads ? a.x.shape[1] : 1, width = a.x.shape[a.x.rank - 1];
  const int64_t num_rows = a.x.shape[0] * heads;
  if (num_rows == 0) return;
  const Rows rows{heads, a.x.stride[0], has_heads ? a.x.stride[1] : 0, a.out.stride[0],
                  has_heads ? a.out.stride[1] : 0};
  with_dtype(a.x.dtype, [&]<class T>(T) {
    if (width <= kSmallWidth)
      small_rms_norm_kernel<T>
          <<<blocks_for(num_rows, kSmallThreads / kLanes), kSmallThreads, 0, stream_of(ctx)>>>(
              a.out.ptr<T>(), a.x.ptr<T>(), a.weight.ptr<float>(), rows, num_rows, int(width), a.eps);
    else
      launch_early(ctx, rms_norm_kernel<T>, unsigned(num_rows), kLargeThreads,
                   shared_bytes(rms_norm_kernel<T>, width), a.out.ptr<T>(), a.x.ptr<T>(),
                   a.weight.ptr<float>(), rows, width, a.eps);
  });
  check_launch("rms_norm");
}

void add_rms_norm(Context& ctx, const AddRmsNormArgs& a) {
  if (a.out.shape[0] == 0) return;
  const int64_t width = a.out.shape[1];
  with_dtype(a.out.dtype, [&]<class T>(T) {
    const auto of_fours = [](const Tensor& t) {
      const uint64_t bytes = dtype_bytes(t.dtype);
      uint64_t all = reinterpret_cast<uint64_t>(t.data);
      for (int d = 0; d + 1 < t.rank; ++d) all |= uint64_t(t.stride[size_t(d)]) * bytes;
      return all % (4 * bytes) == 0;
    };
    const bool fours = width % 4 == 0 && of_fours(a.out) && of_fours(a.partial_sums) &&
                       of_fours(a.residual) && of_fours(a.weight);
    const auto kernel = fours ? add_rms_norm_by_fours_kernel<T> : add_rms_norm_kernel<T>;
    const unsigned threads =
        fours ? std::clamp(blocks_for(width, 128), 2u, 32u) * 32 : unsigned(kLargeThreads);
    launch_early(ctx, kernel, unsigned(a.out.shape[0]), threads, shared_bytes(kernel, width), a.out.ptr<T>(),
                 a.partial_sums.ptr<float>(), a.residual.ptr<T>(), a.weight.ptr<float>(),
                 int(a.partial_sums.shape[0]), a.partial_sums.stride[0], a.partial_sums.stride[1],
                 a.residual.stride[0], a.out.stride[0], width, a.eps);
  });
  check_launch("add_rms_norm");
}

}  // namespace nanovllm::cuda
