#include "runtime/kv_cache.h"

#include "ops/ops.h"

namespace nanovllm {

size_t KvCache::block_bytes(const OpTable& ops, const ModelConfig& config, int num_kv_heads, int block_size) {
  return 2 * size_t(config.num_layers) *
         kv_block_bytes(ops, ops.kv_dtype, block_size, num_kv_heads, config.head_dim);
}

KvCache::KvCache(const OpTable& ops, const ModelConfig& config, int num_kv_heads, int num_blocks,
                 int block_size) {
  const size_t bytes =
      size_t(num_blocks) * kv_block_bytes(ops, ops.kv_dtype, block_size, num_kv_heads, config.head_dim);
  for (int layer = 0; layer < config.num_layers; ++layer) {
    const DeviceBuffer& k = buffers_.emplace_back(*ops.device, bytes, "KV cache");
    void* k_data = k.data();
    const DeviceBuffer& v = buffers_.emplace_back(*ops.device, bytes, "KV cache");
    layers_.push_back({.k = k_data,
                       .v = v.data(),
                       .dtype = ops.kv_dtype,
                       .num_blocks = num_blocks,
                       .block_size = block_size,
                       .num_kv_heads = num_kv_heads,
                       .head_dim = config.head_dim});
  }
}

}  // namespace nanovllm
