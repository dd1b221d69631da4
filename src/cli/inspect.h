// nanovllm inspect: look inside a model.
//
//   inspect MODEL                    its modules under nano-vllm's names with shapes, dtypes and bytes; where the memory goes;
//                                    which kernel serves each op
//   inspect MODEL --trace PROMPT     one forward, step by step: shape, smallest, largest, norm, first values, time
#pragma once

#include <filesystem>
#include <optional>
#include <string>

#include "cli/chat_flags.h"
#include "llm/config.h"

namespace nanovllm::cli {

struct InspectOptions {
  EngineConfig engine;
  std::string model_name;  // as it was asked for
  bool json = false;
  std::optional<std::string> trace;  // the prompt
  std::optional<int> layer;          // with trace: only this one
  bool apply_chat_template = false;  // with trace: the prompt is a user message
  ChatFlags chat;
  std::filesystem::path save;  // with trace: a safetensors file of all values; empty: none
};

// The exit code. throws Error
int run_inspect(const InspectOptions& options);
int run_trace(const InspectOptions& options);

}  // namespace nanovllm::cli
