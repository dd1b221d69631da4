// The paged KV cache of all layers: one allocation for keys and one for values of each.
#pragma once

#include <span>
#include <vector>

#include "models/model_config.h"
#include "ops/kv_layer.h"
#include "tensor/device.h"

namespace nanovllm {

class KvCache {
 public:
  // num_kv_heads: of this rank.
  KvCache(const OpTable& ops, const ModelConfig& config, int num_kv_heads, int num_blocks, int block_size);

  std::span<const KvLayer> layers() const { return layers_; }
  int num_blocks() const { return layers_[0].num_blocks; }

  // Keys and values of one block over all layers.
  static size_t block_bytes(const OpTable& ops, const ModelConfig& config, int num_kv_heads, int block_size);

 private:
  std::vector<DeviceBuffer> buffers_;
  std::vector<KvLayer> layers_;
};

}  // namespace nanovllm
