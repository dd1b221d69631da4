// The shared decoder: every Qwen-class model, by the switches of ModelConfig.
//
//   residual = embed_tokens(ids)                                   [num_tokens, hidden_size] throughout
//   each layer:  h = norm(residual += mlp before)   → self_attn →  h = norm(residual += attn)  →  mlp
//   h = norm(residual += last mlp), only on the rows that need logits
//   logits = lm_head(h), apart from the forward: compute_logits
//
// Names as in nano-vllm and Hugging Face: model.layers.0.self_attn.qkv_proj and so on.
#pragma once

#include <span>
#include <string>
#include <vector>

#include "layers/linear.h"
#include "layers/rms_norm.h"
#include "layers/rotary_embedding.h"
#include "layers/vocab_parallel.h"
#include "models/model_config.h"
#include "ops/attention.h"

namespace nanovllm {

// This step's facts, on the device: built from the engine's Batch by runtime/input_buffers.
struct ModelInput {
  Tensor token_ids;  // [num_tokens] i32
  Tensor positions;  // [num_tokens] i32
  AttentionMeta attn;
  Tensor logits_indices;         // [num_sampled] i32
  bool all_need_logits = false;  // logits_indices are all tokens in their order, as in a step of decodes
  std::span<const KvLayer> kv;   // one a layer
};

// Over how many ranks this model can be split, 1 among them: where its layers can be. A vocabulary is padded.
std::vector<int> tensor_parallel_sizes(const ModelConfig& config);
// throws Error(kUnsupported): size is none of these
void check_tensor_parallel_size(const ModelConfig& config, int size);

// A visitor of modules that visits their parameters.
template <class Visitor>
struct ParameterVisitor {
  Visitor& visit;

  template <class T>
  void operator()(const std::string&, T& module) {
    if constexpr (requires { module.visit_modules(*this); })
      module.visit_modules(*this);
    else
      module.visit_parameters(visit);
  }
};

class Attention {
 public:
  Attention(const std::string& prefix, int index, const ModelConfig& config, TensorParallel tp);

  // hidden [num_tokens, hidden_size] → partial sums [.., num_tokens, hidden_size]
  void forward(Context& ctx, const ModelInput& in, const RotaryEmbedding& rotary, const Tensor& hidden,
               const Tensor& partial_sums) const;
  int num_partial_sums() const { return o_proj_.num_partial_sums(); }
  int num_heads() const { return num_heads_; }  // on this rank
  int num_kv_heads() const { return num_kv_heads_; }

  template <class Visitor>
  void visit_modules(Visitor&& visit) {
    visit("qkv_proj", qkv_proj_);
    if (q_norm_) visit("q_norm", *q_norm_);
    if (k_norm_) visit("k_norm", *k_norm_);
    visit("o_proj", o_proj_);
  }

 private:
  int index_;
  int num_heads_, num_kv_heads_, head_dim_;  // on this rank
  QKVParallelLinear qkv_proj_;
  std::optional<RMSNorm> q_norm_, k_norm_;
  RowParallelLinear o_proj_;
};

class Mlp {
 public:
  Mlp(const std::string& prefix, int index, const ModelConfig& config, TensorParallel tp);

  void forward(Context& ctx, const Tensor& hidden, const Tensor& partial_sums) const;
  int num_partial_sums() const { return down_proj_.num_partial_sums(); }

  template <class Visitor>
  void visit_modules(Visitor&& visit) {
    visit("gate_up_proj", gate_up_proj_);
    visit("down_proj", down_proj_);
  }

 private:
  int index_;
  MergedColumnParallelLinear gate_up_proj_;
  RowParallelLinear down_proj_;
};

struct DecoderLayer {
  DecoderLayer(int index, const ModelConfig& config, TensorParallel tp);

  template <class Visitor>
  void visit_modules(Visitor&& visit) {
    visit("input_layernorm", input_layernorm);
    visit("self_attn", self_attn);
    visit("post_attention_layernorm", post_attention_layernorm);
    visit("mlp", mlp);
  }

  RMSNorm input_layernorm;
  Attention self_attn;
  RMSNorm post_attention_layernorm;
  Mlp mlp;
};

class Decoder {
 public:
  // Declares the parameters; models/load.h fills them. max_positions: the longest sequence.
  Decoder(const ModelConfig& config, const Device& device, int max_positions, TensorParallel tp);
  Decoder(const Decoder&) = delete;  // a tied head points at the embedding
  Decoder& operator=(const Decoder&) = delete;

  // → [num_sampled, hidden_size], normalised, in the arena
  Tensor forward(Context& ctx, const ModelInput& in) const;

  // hidden [num_rows, hidden_size] → [num_rows, vocab_size] f32 on rank 0, in the arena
  Tensor compute_logits(Context& ctx, const Tensor& hidden) const { return lm_head_.forward(ctx, hidden); }

  // visit(name, module), in the order of the forward.
  template <class Visitor>
  void visit_modules(Visitor&& visit) {
    visit("embed_tokens", embed_tokens_);
    for (size_t i = 0; i < layers_.size(); ++i) visit("layers." + std::to_string(i), layers_[i]);
    visit("norm", norm_);
    visit("lm_head", lm_head_);
  }

  // visit(Parameter&), of all modules.
  template <class Visitor>
  void visit_parameters(Visitor&& visit) {
    visit_modules(ParameterVisitor<Visitor>{visit});
  }
  template <class Visitor>
  void visit_parameters(Visitor&& visit) const {
    const_cast<Decoder&>(*this).visit_parameters([&](const Parameter& parameter) { visit(parameter); });
  }

  const ModelConfig& config() const { return config_; }
  const VocabParallelEmbedding& embed_tokens() const { return embed_tokens_; }
  const ParallelLMHead& lm_head() const { return lm_head_; }
  int num_kv_heads() const { return layers_[0].self_attn.num_kv_heads(); }  // on this rank
  size_t rope_table_bytes() const { return rotary_.bytes(); }

 private:
  ModelConfig config_;
  VocabParallelEmbedding embed_tokens_;
  RotaryEmbedding rotary_;
  std::vector<DecoderLayer> layers_;
  RMSNorm norm_;
  ParallelLMHead lm_head_;
};

}  // namespace nanovllm
