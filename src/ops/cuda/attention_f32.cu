// Attention in float32 (ops/attention.h, the definition for the CPU), bit for bit: for exactness, not for speed.
#include "ops/cuda/attention_common.cuh"
#include "ops/cuda/kernels.cuh"
#include "ops/scalar_math.h"

namespace nanovllm::cuda {
namespace {

constexpr int kThreads = kAttentionChunk;  // a thread a key, then a thread an element of the output
constexpr int kMaxHeadDim = 256;
constexpr int kLanes = 16;

// One query head of one token a thread block.
__global__ void attention_f32_kernel(AttentionParams<float> p) {
  __shared__ float q[kMaxHeadDim], weights[kThreads], lanes[kLanes];
  __shared__ int64_t key_rows[kThreads];
  __shared__ float chunk_max, warp_max[kThreads / 32];
  const int tid = threadIdx.x, head = blockIdx.y;
  const int64_t token = blockIdx.x;
  const int seq = sequence_of_token(p, token);
  const int num_queries = p.cu_seqlens_q[seq + 1] - p.cu_seqlens_q[seq];
  const int num_keys = p.seq_lens[seq] - num_queries + int(token - p.cu_seqlens_q[seq]) + 1;
  for (int d = tid; d < p.head_dim; d += kThreads)
    q[d] = p.q[token * p.q_stride + head * p.q_head_stride + d];

  float max = 0, sum = 0, out[kMaxHeadDim / kThreads] = {};
  for (int start = 0; start < num_keys; start += kThreads) {
    const int n = min(kThreads, num_keys - start);
    __syncthreads();
    float score = -INFINITY;
    if (tid < n) {
      key_rows[tid] = key_row<0>(p, seq, head / p.group, start + tid);
      const float* k = p.k + key_rows[tid];
      score = 0;
      for (int d = 0; d < p.head_dim; ++d) score = __fmaf_rn(q[d], k[d], score);
    }
    float m = score;
    for (int width = 16; width > 0; width /= 2) m = fmaxf(m, __shfl_xor_sync(0xffffffffu, m, width));
    if (tid % 32 == 0) warp_max[tid / 32] = m;
    __syncthreads();
    if (tid == 0) {
      for (int w = 1; w < kThreads / 32; ++w) m = fmaxf(m, warp_max[w]);
      chunk_max = m;
    }
    __syncthreads();
    weights[tid] = tid < n ? exp_f32((score - chunk_max) * p.scale) : 0.0f;
    __syncthreads();
    if (tid < kLanes) {
      float lane = weights[tid];
      for (int i = tid + kLanes; i < kThreads; i += kLanes) lane += weights[i];
      lanes[tid] = lane;
    }
    __syncthreads();
    float l[kLanes];
    for (int i = 0; i < kLanes; ++i) l[i] = lanes[i];
    for (int width = kLanes / 2; width > 0; width /= 2)
      for (int i = 0; i < width; ++i) l[i] += l[i + width];
    const float chunk_sum = l[0];
    const float new_max = start == 0 ? chunk_max : fmaxf(chunk_max, max);
    const float a = exp_f32((max - new_max) * p.scale), b = exp_f32((chunk_max - new_max) * p.scale);
    sum = start == 0 ? chunk_sum : __fmaf_rn(sum, a, chunk_sum * b);
    for (int j = 0; j < kMaxHeadDim / kThreads; ++j) {
      const int d = tid + j * kThreads;
      if (d >= p.head_dim) break;
      float o = 0;
      for (int key = 0; key < n; ++key) o = __fmaf_rn(weights[key], p.v[key_rows[key] + d], o);
      out[j] = start == 0 ? o : __fmaf_rn(out[j], a, o * b);
    }
    max = new_max;
  }
  for (int j = 0; j < kMaxHeadDim / kThreads; ++j) {
    const int d = tid + j * kThreads;
    if (d < p.head_dim) p.out[token * p.out_stride + head * p.head_dim + d] = out[j] / sum;
  }
}

}  // namespace

void attention_f32(Context& ctx, const AttentionArgs& a) {
  if (a.q.shape[0] == 0) return;
  if (a.cache.head_dim > kMaxHeadDim)
    fail(ErrorKind::kUnsupported, "attention: head_dim is ", a.cache.head_dim, ", want at most ",
         kMaxHeadDim);
  const dim3 grid(unsigned(a.q.shape[0]), unsigned(a.q.shape[1]));
  attention_f32_kernel<<<grid, kThreads, 0, stream_of(ctx)>>>(attention_params<float>(a));
  check_launch("attention");
}

}  // namespace nanovllm::cuda
