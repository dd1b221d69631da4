// A model as a tree of modules under nano-vllm's names, for people to look at.
//
//   Qwen3ForCausalLM → model: Qwen3Model → layers.0: Qwen3DecoderLayer → self_attn: Qwen3Attention → qkv_proj: …
#pragma once

#include <string>
#include <vector>

#include "models/decoder.h"

namespace nanovllm {

struct Module {
  std::string name;                          // in its parent: "qkv_proj"
  std::string type;                          // "QKVParallelLinear"
  std::vector<const Parameter*> parameters;  // its own, of one rank; they outlive this
  std::vector<Module> children;              // in the order of the forward
};

// model: of one rank, loaded. It outlives the tree.
Module module_tree(const Decoder& model);

}  // namespace nanovllm
