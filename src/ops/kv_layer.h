// One decoder layer's part of the paged KV cache, and the write of this step's keys and values into it.
//
//   slot = block · block_size + offset; the key and value of token t go to slot_mapping[t]; −1 writes nothing
//
// The layout in memory is the backend's own; only store_kv, copy_blocks and attention know it. Kwon et al. 2023,
// arXiv:2309.06180.
#pragma once

#include <span>

#include "ops/context.h"

namespace nanovllm {

struct KvLayer {
  void* k = nullptr;
  void* v = nullptr;
  DType dtype = DType::kF32;
  int num_blocks = 0;
  int block_size = 0;  // tokens per block
  int num_kv_heads = 0;
  int head_dim = 0;
};

struct StoreKvArgs {
  KvLayer cache;
  Tensor k;             // [num_tokens, num_kv_heads, head_dim] T
  Tensor v;             // [num_tokens, num_kv_heads, head_dim] T
  Tensor slot_mapping;  // [num_tokens] i32
};

void store_kv(Context& ctx, const StoreKvArgs& args);

// Copies whole blocks of all layers, one after the other: copy i is from block_copies[i, 0] to block_copies[i, 1].
struct CopyBlocksArgs {
  std::span<const KvLayer> layers;
  Tensor block_copies;  // [num_block_copies, 2] i32
};

void copy_blocks(Context& ctx, const CopyBlocksArgs& args);

// Bytes of the keys (and again of the values) of one block of one layer.
size_t kv_block_bytes(const OpTable& ops, DType dtype, int block_size, int num_kv_heads, int head_dim);

}  // namespace nanovllm
