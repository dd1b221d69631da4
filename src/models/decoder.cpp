#include "models/decoder.h"

#include <algorithm>
#include <cmath>

#include "base/error.h"
#include "ops/gather_rows.h"
#include "ops/ops.h"
#include "ops/silu_and_mul.h"

namespace nanovllm {
namespace {

std::optional<RMSNorm> head_norm(const std::string& name, const ModelConfig& config, TensorParallel tp) {
  if (!config.qk_norm) return std::nullopt;
  return RMSNorm(name, config.head_dim, config.rms_norm_eps, tp);
}

ParallelLMHead make_lm_head(const ModelConfig& config, const VocabParallelEmbedding& embed_tokens,
                            TensorParallel tp) {
  if (config.tie_word_embeddings) return ParallelLMHead(embed_tokens);
  return ParallelLMHead("lm_head", config.vocab_size, config.hidden_size, tp);
}

bool can_split(const ModelConfig& config, int size) {
  return QKVParallelLinear::can_split(config.num_heads, config.num_kv_heads, size) &&
         RowParallelLinear::can_split(int64_t(config.num_heads) * config.head_dim, size) &&
         RowParallelLinear::can_split(config.intermediate_size, size);
}

}  // namespace

std::vector<int> tensor_parallel_sizes(const ModelConfig& config) {
  std::vector<int> sizes;
  for (const int size : {1, 2, 4})
    if (can_split(config, size)) sizes.push_back(size);
  return sizes;
}

void check_tensor_parallel_size(const ModelConfig& config, int size) {
  const std::vector<int> sizes = tensor_parallel_sizes(config);
  if (std::find(sizes.begin(), sizes.end(), size) != sizes.end()) return;
  std::string allowed;
  for (const int each : sizes) allowed += (allowed.empty() ? "" : " or ") + std::to_string(each);
  fail(ErrorKind::kUnsupported, "tensor_parallel_size: is ", size, ", want ", allowed,
       " for this model: it has ", config.num_heads, " heads, ", config.num_kv_heads,
       " kv heads and an intermediate_size of ", config.intermediate_size);
}

Attention::Attention(const std::string& prefix, int index, const ModelConfig& config, TensorParallel tp)
    : index_(index),
      num_heads_(config.num_heads / tp.size),
      num_kv_heads_(std::max(1, config.num_kv_heads / tp.size)),
      head_dim_(config.head_dim),
      qkv_proj_(prefix, config.hidden_size, config.num_heads, config.num_kv_heads, config.head_dim,
                {.bias = config.qkv_bias}, tp),
      q_norm_(head_norm(prefix + "q_norm", config, tp)),
      k_norm_(head_norm(prefix + "k_norm", config, tp)),
      o_proj_(prefix + "o_proj", int64_t(config.num_heads) * config.head_dim, config.hidden_size,
              {.bias = config.o_bias}, tp) {}

void Attention::forward(Context& ctx, const ModelInput& in, const RotaryEmbedding& rotary,
                        const Tensor& hidden, const Tensor& partial_sums) const {
  const Arena::Scope scope(ctx.arena);
  const Tensor qkv = qkv_proj_.forward(ctx, hidden);  // [num_tokens, (num_heads + 2 num_kv_heads) * head_dim]
  const Tensor q = heads(qkv, 0, num_heads_, head_dim_);
  const Tensor k = heads(qkv, num_heads_, num_kv_heads_, head_dim_);
  const Tensor v = heads(qkv, num_heads_ + num_kv_heads_, num_kv_heads_, head_dim_);
  ctx.show("self_attn.qkv_proj", index_, qkv);
  const KvLayer& cache = in.kv[size_t(index_)];
  norm_rope_store(ctx, {.q = q,
                        .k = k,
                        .v = v,
                        .q_weight = q_norm_ ? q_norm_->weight() : Tensor{},
                        .k_weight = k_norm_ ? k_norm_->weight() : Tensor{},
                        .eps = q_norm_ ? q_norm_->eps() : 0,
                        .positions = in.positions,
                        .cos_sin = rotary.cos_sin(),
                        .cache = cache,
                        .slot_mapping = in.attn.slot_mapping});
  ctx.show("self_attn.q", index_, q);
  ctx.show("self_attn.k", index_, k);

  const Tensor out = ctx.arena.make(q.dtype, {q.shape[0], int64_t(num_heads_) * head_dim_});
  attention(ctx,
            {.out = out, .q = q, .cache = cache, .meta = in.attn, .scale = 1 / std::sqrt(float(head_dim_))});
  ctx.show("self_attn.attn", index_, out);
  o_proj_.forward(ctx, out, partial_sums);
  ctx.show("self_attn.o_proj", index_, partial_sums);
}

Mlp::Mlp(const std::string& prefix, int index, const ModelConfig& config, TensorParallel tp)
    : index_(index),
      gate_up_proj_(
          {{prefix + "gate_proj", config.intermediate_size}, {prefix + "up_proj", config.intermediate_size}},
          config.hidden_size, {.bias = config.mlp_bias}, tp),
      down_proj_(prefix + "down_proj", config.intermediate_size, config.hidden_size,
                 {.bias = config.mlp_bias}, tp) {}

void Mlp::forward(Context& ctx, const Tensor& hidden, const Tensor& partial_sums) const {
  const Arena::Scope scope(ctx.arena);
  const Tensor out = ctx.arena.make(hidden.dtype, {hidden.shape[0], gate_up_proj_.gated_features()});
  if (ctx.trace) {  // and the product is freed before down_proj, as where it is not shown: the memory is planned for that
    const Arena::Scope product(ctx.arena);
    const Tensor gate_up = gate_up_proj_.forward(ctx, hidden);  // [num_tokens, 2 intermediate_size]
    ctx.show("mlp.gate_up_proj", index_, gate_up);
    silu_and_mul(ctx, {.out = out, .gate_up = gate_up});
  } else {
    gate_up_proj_.forward_gated(ctx, hidden, out);
  }
  ctx.show("mlp.act_fn", index_, out);
  down_proj_.forward(ctx, out, partial_sums);
  ctx.show("mlp.down_proj", index_, partial_sums);
}

DecoderLayer::DecoderLayer(int index, const ModelConfig& config, TensorParallel tp)
    : input_layernorm("model.layers." + std::to_string(index) + ".input_layernorm", config.hidden_size,
                      config.rms_norm_eps, tp),
      self_attn("model.layers." + std::to_string(index) + ".self_attn.", index, config, tp),
      post_attention_layernorm("model.layers." + std::to_string(index) + ".post_attention_layernorm",
                               config.hidden_size, config.rms_norm_eps, tp),
      mlp("model.layers." + std::to_string(index) + ".mlp.", index, config, tp) {}

Decoder::Decoder(const ModelConfig& config, const Device& device, int max_positions, TensorParallel tp)
    : config_(config),
      embed_tokens_("model.embed_tokens", config.vocab_size, config.hidden_size, tp),
      rotary_(device, config.head_dim, max_positions, config.rope),
      norm_("model.norm", config.hidden_size, config.rms_norm_eps, tp),
      lm_head_(make_lm_head(config, embed_tokens_, tp)) {
  layers_.reserve(size_t(config.num_layers));
  for (int i = 0; i < config.num_layers; ++i) layers_.emplace_back(i, config, tp);
}

Tensor Decoder::forward(Context& ctx, const ModelInput& in) const {
  const int64_t num_tokens = in.token_ids.shape[0], num_rows = in.logits_indices.shape[0];
  const int64_t attn_sums = layers_[0].self_attn.num_partial_sums(),
                mlp_sums = layers_[0].mlp.num_partial_sums();
  const DType dtype = ctx.ops.activation_dtype;
  const Tensor out = ctx.arena.make(dtype, {num_rows, config_.hidden_size});

  const Arena::Scope scope(ctx.arena);
  const Tensor residual = ctx.arena.make(dtype, {num_tokens, config_.hidden_size});
  const Tensor hidden = ctx.arena.make(dtype, {num_tokens, config_.hidden_size});
  const Tensor attn_out = ctx.arena.make(DType::kF32, {attn_sums, num_tokens, config_.hidden_size});
  const Tensor mlp_out = ctx.arena.make(DType::kF32, {mlp_sums, num_tokens, config_.hidden_size});

  ModelInput planned = in;
  planned.attn = plan_attention(ctx, in.attn, in.kv[0], layers_[0].self_attn.num_heads());

  embed_tokens_.forward(ctx, in.token_ids, residual);
  for (size_t i = 0; i < layers_.size(); ++i) {
    const DecoderLayer& layer = layers_[i];
    if (i == 0)
      layer.input_layernorm.forward(ctx, residual, hidden);
    else
      layer.input_layernorm.add_forward(ctx, mlp_out, residual, hidden);
    ctx.show("residual", int(i), residual);
    ctx.show("input_layernorm", int(i), hidden);
    layer.self_attn.forward(ctx, planned, rotary_, hidden, attn_out);
    layer.post_attention_layernorm.add_forward(ctx, attn_out, residual, hidden);
    ctx.show("post_attention_layernorm", int(i), hidden);
    layer.mlp.forward(ctx, hidden, mlp_out);
  }

  // Only the rows that need logits go on.
  Tensor last_sums = ctx.arena.make(DType::kF32, {mlp_sums, num_rows, config_.hidden_size});
  Tensor last_residual = ctx.arena.make(dtype, {num_rows, config_.hidden_size});
  if (in.all_need_logits) {  // the memory stays planned for, as other steps need it
    last_sums = mlp_out;
    last_residual = residual;
  } else {
    for (int64_t s = 0; s < mlp_sums; ++s)
      gather_rows(ctx, {.out = last_sums[s], .x = mlp_out[s], .indices = in.logits_indices});
    gather_rows(ctx, {.out = last_residual, .x = residual, .indices = in.logits_indices});
  }
  norm_.add_forward(ctx, last_sums, last_residual, out);
  ctx.show("norm", -1, out);
  return out;
}

}  // namespace nanovllm
