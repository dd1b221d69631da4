// What stands between the qkv product and attention: norms of the heads of q and k, where a model has them, RoPE, and the write
// of keys and values into the cache.
//
// By definition the ops rms_norm, rope and store_kv, one after the other, bit for bit. A backend may do it in one pass over
// q, k and v (OpTable::norm_rope_store), which leaves k as it was; where it does not, or a trace wants to see k, the single ops
// run.
#pragma once

#include "ops/kv_layer.h"

namespace nanovllm {

struct NormRopeStoreArgs {
  Tensor q;           // [num_tokens, num_heads, head_dim] T; in place
  Tensor k;           // [num_tokens, num_kv_heads, head_dim] T; in place, or left as it was
  Tensor v;           // [num_tokens, num_kv_heads, head_dim] T
  Tensor q_weight;    // [head_dim] f32, optional: of the norm
  Tensor k_weight;    // [head_dim] f32, given with q_weight
  float eps = 1e-6f;  // of both norms
  Tensor positions;   // [num_tokens] i32
  Tensor cos_sin;     // [max_positions, rotary_dim] f32 (ops/rope.h)
  KvLayer cache;
  Tensor slot_mapping;  // [num_tokens] i32
};

void norm_rope_store(Context& ctx, const NormRopeStoreArgs& args);
// The definition.
void norm_rope_store_by_single_ops(Context& ctx, const NormRopeStoreArgs& args);

}  // namespace nanovllm
