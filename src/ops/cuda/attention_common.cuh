// What attention's kernels share: where a query, a key and a sequence are found.
#pragma once

#include "ops/cuda/cache_layout.cuh"
#include "ops/ops.h"

namespace nanovllm::cuda {

template <class T>
struct AttentionParams {
  T* out;
  const T *q, *k, *v;
  const int32_t *cu_seqlens_q, *seq_lens, *block_table;
  int num_seqs, max_blocks, block_size, num_kv_heads, head_dim;
  int group;  // query heads of a kv head
  int64_t q_stride, q_head_stride, out_stride;
  float scale;
  bool singles_are_planned = false;  // sequences with one query are another kernel's
};

template <class T>
AttentionParams<T> attention_params(const AttentionArgs& a) {
  return {.out = a.out.ptr<T>(),
          .q = a.q.ptr<T>(),
          .k = static_cast<const T*>(a.cache.k),
          .v = static_cast<const T*>(a.cache.v),
          .cu_seqlens_q = a.meta.cu_seqlens_q.ptr<int32_t>(),
          .seq_lens = a.meta.seq_lens.ptr<int32_t>(),
          .block_table = a.meta.block_table.ptr<int32_t>(),
          .num_seqs = int(a.meta.seq_lens.shape[0]),
          .max_blocks = int(a.meta.block_table.stride[0]),
          .block_size = a.cache.block_size,
          .num_kv_heads = a.cache.num_kv_heads,
          .head_dim = a.cache.head_dim,
          .group = int(a.q.shape[1]) / a.cache.num_kv_heads,
          .q_stride = a.q.stride[0],
          .q_head_stride = a.q.stride[1],
          .out_stride = a.out.stride[0],
          .scale = a.scale};
}

// The last sequence i with first(i) <= index, where first rises with i and first(0) = 0.
template <class First>
__device__ int last_at_or_before(int num_seqs, int64_t index, First first) {
  int low = 0, high = num_seqs;
  while (high - low > 1) {
    const int middle = (low + high) / 2;
    (first(middle) <= index ? low : high) = middle;
  }
  return low;
}

template <class T>
__device__ int sequence_of_token(const AttentionParams<T>& p, int64_t token) {
  return last_at_or_before(p.num_seqs, token, [&](int i) { return int64_t(p.cu_seqlens_q[i]); });
}

// The row of a position's key (and value) in the cache: for float32 where it begins, for 16-bit types what piece_of_row takes.
template <int kHeadDim, class T>
__device__ int64_t key_row(const AttentionParams<T>& p, int seq, int kv_head, int position) {
  const int64_t block = p.block_table[int64_t(seq) * p.max_blocks + position / p.block_size];
  return cache_row<T>(block * p.num_kv_heads + kv_head, p.block_size, kHeadDim > 0 ? kHeadDim : p.head_dim,
                      position % p.block_size);
}

}  // namespace nanovllm::cuda
