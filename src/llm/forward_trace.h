// One forward of a prompt, looked at step by step.
#pragma once

#include <span>
#include <string>
#include <vector>

#include "base/token.h"
#include "llm/config.h"

namespace nanovllm {

// What a module gave. The names are those of Hugging Face's modules, where it has one.
struct TraceStep {
  std::string name;            // "model.layers.0.self_attn.qkv_proj", "logits"
  int layer = -1;              // -1: outside the layers
  std::vector<int64_t> shape;  // on rank 0
  std::vector<float> values;   // in row-major order
  double seconds = 0;          // since the step before
};

// config: its limits are set to what the prompt needs. Prompt positions all go through the layers at once; logits are of
// the last one. throws Error: as LLM and its add_request
std::vector<TraceStep> trace_forward(EngineConfig config, std::span<const TokenId> prompt);

}  // namespace nanovllm
