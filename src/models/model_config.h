// What config.json says of a decoder-only model, in one plain struct.
//
// Read from the form of transformers 4 (rope_theta, rope_scaling, torch_dtype) and of transformers 5
// (rope_parameters, dtype); where both stand and disagree, that is an error. A field that would change the
// result and that is not implemented is refused by name.
#pragma once

#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "base/token.h"
#include "layers/rotary_embedding.h"

namespace nanovllm {

struct ModelConfig {
  std::string architecture;  // "Qwen3ForCausalLM"
  int64_t vocab_size = 0;    // rows of the embedding; a tokenizer may know fewer
  int64_t hidden_size = 0;
  int64_t intermediate_size = 0;
  int num_layers = 0;
  int num_heads = 0;
  int num_kv_heads = 0;
  int head_dim = 0;
  int max_position_embeddings = 0;
  // The longest sequence: max_position_embeddings, or what YaRN stretches them to, or a sliding window.
  int max_model_len = 0;
  float rms_norm_eps = 1e-6f;
  RopeConfig rope;
  bool tie_word_embeddings = false;
  std::optional<DType>
      dtype;  // of the weights, as dtype or torch_dtype names it; none: it does not, or is another one

  // Switches of the shared decoder, set by the family.
  bool qk_norm = false;
  bool qkv_bias = false;
  bool o_bias = false;
  bool mlp_bias = false;  // gate_proj, up_proj and down_proj

  std::vector<TokenId> eos_token_ids;  // of config.json: none, one or several
};

// throws Error(kConfig): no config.json, a damaged one, a missing or impossible field; Error(kUnsupported):
// what it names is not implemented
ModelConfig read_model_config(const std::filesystem::path& model_folder);
// The text of a config.json; name stands for the file in errors.
ModelConfig parse_model_config(const std::string& json, const std::string& name);

}  // namespace nanovllm
