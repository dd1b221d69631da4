// Writes of the paged KV cache, and copies of its blocks.
#include "ops/cuda/cache_layout.cuh"
#include "ops/cuda/kernels.cuh"

namespace nanovllm::cuda {
namespace {

constexpr int kThreads = 256;

template <class T>
__global__ void store_kv_kernel(T* k_cache, T* v_cache, const T* k, const T* v, const int32_t* slots,
                                int block_size, int num_kv_heads, int head_dim, int64_t k_stride,
                                int64_t k_head_stride, int64_t v_stride, int64_t v_head_stride) {
  const int64_t t = blockIdx.x, slot = slots[t];
  if (slot < 0) return;
  const int64_t block = slot / block_size;
  const int offset = int(slot % block_size);
  for (int i = threadIdx.x; i < num_kv_heads * head_dim; i += blockDim.x) {
    const int head = i / head_dim, d = i % head_dim;
    const int64_t to = cache_element<T>(block * num_kv_heads + head, block_size, head_dim, offset, d);
    k_cache[to] = k[t * k_stride + head * k_head_stride + d];
    v_cache[to] = v[t * v_stride + head * v_head_stride + d];
  }
}

// A thread takes its element of every copy in their order, so a copy may read what one before it wrote.
template <class Word>
__global__ void copy_blocks_kernel(Word* k_cache, Word* v_cache, const int32_t* pairs, int64_t num_copies,
                                   int64_t block_words) {
  const int64_t i = blockIdx.x * int64_t(blockDim.x) + threadIdx.x;
  if (i >= block_words) return;
  for (int64_t copy = 0; copy < num_copies; ++copy) {
    const int64_t from = pairs[2 * copy] * block_words + i, to = pairs[2 * copy + 1] * block_words + i;
    k_cache[to] = k_cache[from];
    v_cache[to] = v_cache[from];
  }
}

}  // namespace

size_t kv_block_bytes(DType dtype, int block_size, int num_kv_heads, int head_dim) {
  return size_t(block_size) * size_t(num_kv_heads) * size_t(head_dim) * dtype_bytes(dtype);
}

void store_kv(Context& ctx, const StoreKvArgs& a) {
  if (a.k.shape[0] == 0) return;
  with_dtype(a.cache.dtype, [&]<class T>(T) {
    store_kv_kernel<T><<<unsigned(a.k.shape[0]), kThreads, 0, stream_of(ctx)>>>(
        static_cast<T*>(a.cache.k), static_cast<T*>(a.cache.v), a.k.ptr<T>(), a.v.ptr<T>(),
        a.slot_mapping.ptr<int32_t>(), a.cache.block_size, a.cache.num_kv_heads, a.cache.head_dim,
        a.k.stride[0], a.k.stride[1], a.v.stride[0], a.v.stride[1]);
  });
  check_launch("store_kv");
}

void copy_blocks(Context& ctx, const CopyBlocksArgs& a) {
  if (a.block_copies.shape[0] == 0) return;
  for (const KvLayer& layer : a.layers) {
    const size_t bytes = kv_block_bytes(layer.dtype, layer.block_size, layer.num_kv_heads, layer.head_dim);
    const auto launch = [&]<class Word>(Word) {
      const int64_t words = int64_t(bytes / sizeof(Word));
      copy_blocks_kernel<Word><<<blocks_for(words, kThreads), kThreads, 0, stream_of(ctx)>>>(
          static_cast<Word*>(layer.k), static_cast<Word*>(layer.v), a.block_copies.ptr<int32_t>(),
          a.block_copies.shape[0], words);
    };
    bytes % sizeof(uint4) == 0 ? launch(uint4{}) : launch(uint16_t{});
  }
  check_launch("copy_blocks");
}

}  // namespace nanovllm::cuda
