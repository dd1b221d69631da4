// Where the paged KV cache has an element, keys and values alike.
//
// A block of one kv head is [block_size][head_dim] of T as it is, or, where T has 16 bits and head_dim is a multiple of 64,
// [head_dim / 64][block_size][64] with the 8 elements (16 bytes) number c of row r at place c ^ (r % 8): rows that are copied
// to shared memory as they are lie right for ldmatrix and wgmma, without bank conflicts.
#pragma once

#include "ops/cuda/cuda_common.cuh"

namespace nanovllm::cuda {

template <class T>
__device__ constexpr bool has_swizzle(int head_dim) {
  return sizeof(T) == 2 && head_dim % 64 == 0;
}

// The element at which a row begins, plus r % 8 where pieces change places. head: block · num_kv_heads + kv_head
template <class T>
__device__ inline int64_t cache_row(int64_t head, int block_size, int head_dim, int row) {
  if (!has_swizzle<T>(head_dim)) return (head * block_size + row) * head_dim;
  return (head * (head_dim / 64) * block_size + row) * 64 + row % 8;
}

// The element at which a row's 8 elements from 8 piece on begin.
template <int kHeadDim, class T>
__device__ inline int64_t piece_of_row(int64_t cache_row, int piece, int block_size) {
  if (!has_swizzle<T>(kHeadDim)) return cache_row + 8 * piece;
  const int swizzle = int(cache_row % 8);
  return cache_row - swizzle + int64_t(piece / 8) * block_size * 64 + ((piece % 8) ^ swizzle) * 8;
}

template <class T>
__device__ inline int64_t cache_element(int64_t head, int block_size, int head_dim, int row, int d) {
  if (!has_swizzle<T>(head_dim)) return (head * block_size + row) * head_dim + d;
  return ((head * (head_dim / 64) + d / 64) * block_size + row) * 64 + ((d % 64 / 8) ^ (row % 8)) * 8 + d % 8;
}

}  // namespace nanovllm::cuda
