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
  std::optional<float> top_p;
  std::optional<int> top_k;
};

// Empty where there is no such file. throws Error(kConfig): it is damaged
GenerationConfig read_generation_config(const std::filesystem::path& model_folder);
GenerationConfig parse_generation_config(const std::string& json, const std::string& name);

}  // namespace nanovllm
