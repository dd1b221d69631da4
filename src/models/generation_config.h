// generation_config.json: how a model's authors want it sampled. Used by the command line for what a user
// leaves unset, and, for its EOS ids, by everyone.
#pragma once

#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "base/token.h"

namespace nanovllm {

struct GenerationConfig {
  std::vector<TokenId> eos_token_ids;
  std::optional<bool> do_sample;  // false: greedy
  std::optional<float> temperature;
  std::optional<float> top_p, min_p, repetition_penalty;
  std::optional<int> top_k;
};

// Empty where there is no such file. Fields that would change the answers and are not implemented are told
// once, by name. throws Error(kConfig): it is damaged, or a value makes no sense
GenerationConfig read_generation_config(const std::filesystem::path& model_folder);
GenerationConfig parse_generation_config(const std::string& json, const std::string& name);

}  // namespace nanovllm
