// A Qwen3 model small enough to write down: its config.json, and its tensors in any mix of dtypes. Every
// value is a multiple of 1/16 below 8, so f16 and bf16 hold it exactly.
#pragma once

#include <algorithm>
#include <functional>
#include <string>
#include <vector>

#include "safetensors_writer.h"
#include "support.h"
#include "tensor/dtype.h"

namespace nanovllm::test {

inline constexpr const char* kTinyConfig = R"({
  "architectures": ["Qwen3ForCausalLM"], "vocab_size": 21, "hidden_size": 8, "intermediate_size": 12,
  "num_hidden_layers": 2, "num_attention_heads": 4, "num_key_value_heads": 2, "head_dim": 4,
  "max_position_embeddings": 64, "rms_norm_eps": 1e-6, "rope_theta": 1000000.0, "hidden_act": "silu",
  "tie_word_embeddings": false})";

struct TinyTensor {
  std::string name;
  std::vector<int64_t> shape;
};

inline std::vector<TinyTensor> tiny_tensors(bool with_lm_head = true) {
  std::vector<TinyTensor> tensors{{"model.embed_tokens.weight", {21, 8}}};
  for (const std::string layer : {"model.layers.0.", "model.layers.1."})
    for (const TinyTensor& tensor : std::vector<TinyTensor>{{"input_layernorm.weight", {8}},
                                                            {"self_attn.q_proj.weight", {16, 8}},
                                                            {"self_attn.k_proj.weight", {8, 8}},
                                                            {"self_attn.v_proj.weight", {8, 8}},
                                                            {"self_attn.q_norm.weight", {4}},
                                                            {"self_attn.k_norm.weight", {4}},
                                                            {"self_attn.o_proj.weight", {8, 16}},
                                                            {"post_attention_layernorm.weight", {8}},
                                                            {"mlp.gate_proj.weight", {12, 8}},
                                                            {"mlp.up_proj.weight", {12, 8}},
                                                            {"mlp.down_proj.weight", {8, 12}}})
      tensors.push_back({layer + tensor.name, tensor.shape});
  tensors.push_back({"model.norm.weight", {8}});
  if (with_lm_head) tensors.push_back({"lm_head.weight", {21, 8}});
  return tensors;
}

// A Llama of the same sizes with a bias wherever one can be.
inline constexpr const char* kTinyBiasConfig = R"({
  "architectures": ["LlamaForCausalLM"], "vocab_size": 21, "hidden_size": 8, "intermediate_size": 12,
  "num_hidden_layers": 2, "num_attention_heads": 4, "num_key_value_heads": 2, "head_dim": 4,
  "max_position_embeddings": 64, "rms_norm_eps": 1e-6, "rope_theta": 10000.0, "hidden_act": "silu",
  "attention_bias": true, "mlp_bias": true, "tie_word_embeddings": false})";

inline std::vector<TinyTensor> tiny_bias_tensors() {
  std::vector<TinyTensor> tensors;
  for (const TinyTensor& tensor : tiny_tensors()) {
    if (tensor.name.ends_with("q_norm.weight") || tensor.name.ends_with("k_norm.weight")) continue;
    tensors.push_back(tensor);
    if (const size_t at = tensor.name.find("_proj.weight"); at != std::string::npos)
      tensors.push_back({tensor.name.substr(0, at) + "_proj.bias", {tensor.shape[0]}});
  }
  return tensors;
}

// Element i of a tensor: multiples of 1/16 from -4 to 4, of its own in each tensor.
inline float tiny_value(const std::string& name, int64_t i) {
  uint32_t h = uint32_t(std::hash<std::string_view>()(name)) + uint32_t(i) * 2654435761u;
  h = (h ^ (h >> 15)) * 2246822519u;
  return float(int(h >> 25) - 64) / 16;
}

inline NamedTensor tiny_tensor(const TinyTensor& tensor, DType dtype) {
  int64_t size = 1;
  for (const int64_t n : tensor.shape) size *= n;
  std::vector<float> values;
  for (int64_t i = 0; i < size; ++i) values.push_back(tiny_value(tensor.name, i));
  if (dtype == DType::kF32) return named_tensor(tensor.name, "F32", tensor.shape, values);
  std::vector<uint16_t> bits(values.size());
  std::transform(values.begin(), values.end(), bits.begin(),
                 dtype == DType::kF16 ? float_to_f16 : float_to_bf16);
  return named_tensor(tensor.name, dtype == DType::kF16 ? "F16" : "BF16", tensor.shape, bits);
}

// dtype_of: the dtype of each tensor, by its name.
inline std::vector<NamedTensor> tiny_checkpoint_in(const std::function<DType(const std::string&)>& dtype_of,
                                                   bool with_lm_head = true) {
  std::vector<NamedTensor> result;
  for (const TinyTensor& tensor : tiny_tensors(with_lm_head))
    result.push_back(tiny_tensor(tensor, dtype_of(tensor.name)));
  return result;
}

inline std::vector<NamedTensor> tiny_checkpoint(bool with_lm_head = true) {
  return tiny_checkpoint_in([](const std::string&) { return DType::kF32; }, with_lm_head);
}

inline std::vector<NamedTensor> tiny_bias_checkpoint() {
  std::vector<NamedTensor> result;
  for (const TinyTensor& tensor : tiny_bias_tensors()) result.push_back(tiny_tensor(tensor, DType::kF32));
  return result;
}

// A model folder of its own with these tensors.
inline void write_tiny_model(const ScratchFolder& folder, const std::vector<NamedTensor>& tensors,
                             size_t misalignment = 0, std::string_view config = kTinyConfig) {
  folder.write("config.json", config);
  write_safetensors(folder / "model.safetensors", tensors, misalignment);
}

}  // namespace nanovllm::test
