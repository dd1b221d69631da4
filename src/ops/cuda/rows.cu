// Ops over rows that move, turn or scale: no sums.
#include "ops/cuda/kernels.cuh"
#include "ops/cuda/launch.cuh"
#include "ops/cuda/silu_and_mul.cuh"

namespace nanovllm::cuda {
namespace {

constexpr int kThreads = 256;

template <class T, class W>
__global__ void embedding_kernel(T* out, const int32_t* ids, const W* table, int64_t num_rows, int64_t width,
                                 int64_t first_id, int64_t out_stride) {
  start_early();
  const int64_t t = blockIdx.x, row = ids[t] - first_id;
  T* to = out + t * out_stride;
  const bool here = row >= 0 && row < num_rows;
  for (int64_t i = threadIdx.x; i < width; i += blockDim.x)
    to[i] = here ? round_to<T>(flushed(to_float(table[row * width + i]))) : round_to<T>(-0.0f);
}

// Products are rounded before their sum (-fmad=false).
template <class T>
__global__ void rope_kernel(T* q, T* k, const int32_t* positions, const float* cos_sin, int num_heads,
                            int num_kv_heads, int half, int64_t q_stride, int64_t q_head_stride,
                            int64_t k_stride, int64_t k_head_stride) {
  const int64_t t = blockIdx.x;
  const float* table = cos_sin + int64_t(positions[t]) * 2 * half;
  for (int i = threadIdx.x; i < (num_heads + num_kv_heads) * half; i += blockDim.x) {
    const int head = i / half, d = i % half;
    T* row = head < num_heads ? q + t * q_stride + head * q_head_stride
                              : k + t * k_stride + (head - num_heads) * k_head_stride;
    const float c = table[d], s = table[half + d], x1 = to_float(row[d]), x2 = to_float(row[half + d]);
    row[d] = round_to<T>(x1 * c - x2 * s);
    row[half + d] = round_to<T>(x2 * c + x1 * s);
  }
}

// 16 bytes at a time.
template <class T>
struct alignas(16) Piece {
  static constexpr int kCount = 16 / int(sizeof(T));
  T at[kCount];
};

template <class T>
__global__ void silu_and_mul_by_pieces_kernel(T* out, const T* gate_up, int64_t width, int64_t out_stride,
                                              int64_t in_stride) {
  start_early();
  const int64_t t = blockIdx.x, i = (blockIdx.y * int64_t(blockDim.x) + threadIdx.x) * Piece<T>::kCount;
  if (i >= width) return;
  const T* row = gate_up + t * in_stride;
  const Piece<T> gate = *reinterpret_cast<const Piece<T>*>(row + i),
                 up = *reinterpret_cast<const Piece<T>*>(row + width + i);
  Piece<T> result;
#pragma unroll
  for (int e = 0; e < Piece<T>::kCount; ++e) result.at[e] = silu_and_mul_of(gate.at[e], up.at[e]);
  *reinterpret_cast<Piece<T>*>(out + t * out_stride + i) = result;
}

template <class T>
__global__ void silu_and_mul_kernel(T* out, const T* gate_up, int64_t width, int64_t out_stride,
                                    int64_t in_stride) {
  const int64_t t = blockIdx.x;
  const T* row = gate_up + t * in_stride;
  for (int64_t i = blockIdx.y * int64_t(blockDim.x) + threadIdx.x; i < width;
       i += gridDim.y * int64_t(blockDim.x))
    out[t * out_stride + i] = silu_and_mul_of(row[i], row[width + i]);
}

__global__ void sum_segments_kernel(float* out, const float* s, int64_t width, int64_t out_stride,
                                    int64_t segment_stride, int64_t row_stride) {
  const int64_t t = blockIdx.x;
  for (int64_t i = threadIdx.x; i < width; i += blockDim.x)
    out[t * out_stride + i] = s[t * row_stride + i] + s[segment_stride + t * row_stride + i];
}

template <class Word>
__global__ void gather_rows_kernel(Word* out, const Word* x, const int32_t* indices, int64_t width,
                                   int64_t out_stride, int64_t x_stride) {
  start_early();
  const int64_t r = blockIdx.x;
  for (int64_t i = threadIdx.x; i < width; i += blockDim.x)
    out[r * out_stride + i] = x[indices[r] * x_stride + i];
}

}  // namespace

void embedding(Context& ctx, const EmbeddingArgs& a) {
  if (a.out.shape[0] == 0) return;
  with_dtype(a.out.dtype, [&]<class T>(T) {
    with_dtype(a.table.dtype, [&]<class W>(W) {
      launch_early(ctx, embedding_kernel<T, W>, unsigned(a.out.shape[0]), kThreads, 0, a.out.ptr<T>(),
                   a.token_ids.ptr<int32_t>(), static_cast<const W*>(a.table.data), a.table.out_features,
                   a.out.shape[1], a.first_id, a.out.stride[0]);
    });
  });
  check_launch("embedding");
}

void rope(Context& ctx, const RopeArgs& a) {
  if (a.q.shape[0] == 0) return;
  with_dtype(a.q.dtype, [&]<class T>(T) {
    rope_kernel<T><<<unsigned(a.q.shape[0]), kThreads, 0, stream_of(ctx)>>>(
        a.q.ptr<T>(), a.k.ptr<T>(), a.positions.ptr<int32_t>(), a.cos_sin.ptr<float>(), int(a.q.shape[1]),
        int(a.k.shape[1]), int(a.cos_sin.shape[1] / 2), a.q.stride[0], a.q.stride[1], a.k.stride[0],
        a.k.stride[1]);
  });
  check_launch("rope");
}

void silu_and_mul(Context& ctx, const SiluAndMulArgs& a) {
  if (a.out.shape[0] == 0) return;
  const int64_t width = a.out.shape[1];
  with_dtype(a.out.dtype, [&]<class T>(T) {
    constexpr int64_t kCount = Piece<T>::kCount;
    const auto whole = [](const Tensor& t) {
      return reinterpret_cast<uint64_t>(t.data) % 16 == 0 && t.stride[0] % kCount == 0;
    };
    if (width % kCount == 0 && whole(a.out) && whole(a.gate_up)) {
      constexpr int kFew = 128;
      const dim3 grid(unsigned(a.out.shape[0]), blocks_for(width, kFew * kCount));
      launch_early(ctx, silu_and_mul_by_pieces_kernel<T>, grid, kFew, 0, a.out.ptr<T>(), a.gate_up.ptr<T>(),
                   width, a.out.stride[0], a.gate_up.stride[0]);
      return;
    }
    const dim3 grid(unsigned(a.out.shape[0]), std::min(16u, blocks_for(width, kThreads)));
    silu_and_mul_kernel<T><<<grid, kThreads, 0, stream_of(ctx)>>>(a.out.ptr<T>(), a.gate_up.ptr<T>(), width,
                                                                  a.out.stride[0], a.gate_up.stride[0]);
  });
  check_launch("silu_and_mul");
}

void sum_segments(Context& ctx, const SumSegmentsArgs& a) {
  if (a.out.shape[0] == 0) return;
  sum_segments_kernel<<<unsigned(a.out.shape[0]), kThreads, 0, stream_of(ctx)>>>(
      a.out.ptr<float>(), a.partial_sums.ptr<float>(), a.out.shape[1], a.out.stride[0],
      a.partial_sums.stride[0], a.partial_sums.stride[1]);
  check_launch("sum_segments");
}

void gather_rows(Context& ctx, const GatherRowsArgs& a) {
  if (a.out.shape[0] == 0) return;
  const auto launch = [&]<class Word>(Word) {
    launch_early(ctx, gather_rows_kernel<Word>, unsigned(a.out.shape[0]), kThreads, 0, a.out.ptr<Word>(),
                 a.x.ptr<Word>(), a.indices.ptr<int32_t>(), a.out.shape[1], a.out.stride[0], a.x.stride[0]);
  };
  dtype_bytes(a.x.dtype) == 4 ? launch(uint32_t{}) : launch(uint16_t{});
  check_launch("gather_rows");
}

}  // namespace nanovllm::cuda
