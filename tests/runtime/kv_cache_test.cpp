#include "runtime/kv_cache.h"

#include <gtest/gtest.h>

#include <set>

#include "ops/cpu/cpu_ops.h"

namespace nanovllm {
namespace {

ModelConfig config_of(int num_layers, int head_dim) {
  ModelConfig config;
  config.num_layers = num_layers;
  config.head_dim = head_dim;
  return config;
}

TEST(KvCache, ABlockIsKeysAndValuesOfAllLayersInFloat32) {
  for (const int head_dim : {32, 64, 128})
    EXPECT_EQ(KvCache::block_bytes(cpu_ops(), config_of(3, head_dim), 2, 16),
              2u * 3 * 2 * 16 * size_t(head_dim) * 4);
  EXPECT_EQ(KvCache::block_bytes(cpu_ops(), config_of(1, 64), 8, 256), 2u * 8 * 256 * 64 * 4);
}

TEST(KvCache, EachLayerHasMemoryOfItsOwn) {
  const KvCache cache(cpu_ops(), config_of(3, 32), 2, 5, 16);
  EXPECT_EQ(cache.num_blocks(), 5);
  ASSERT_EQ(cache.layers().size(), 3u);
  const size_t bytes = 5 * KvCache::block_bytes(cpu_ops(), config_of(1, 32), 2, 16) / 2;
  std::set<void*> starts;
  for (const KvLayer& layer : cache.layers()) {
    EXPECT_EQ(layer.num_blocks, 5);
    EXPECT_EQ(layer.block_size, 16);
    EXPECT_EQ(layer.num_kv_heads, 2);
    EXPECT_EQ(layer.head_dim, 32);
    for (void* data : {layer.k, layer.v}) {
      starts.insert(data);
      std::fill_n(static_cast<std::byte*>(data), bytes, std::byte{7});  // asan would tell
    }
  }
  EXPECT_EQ(starts.size(), 6u);
}

}  // namespace
}  // namespace nanovllm
