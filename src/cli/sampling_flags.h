// Sampling options as a user gives them: each may be left out. What is left out comes from the model's
// generation_config.json; max_tokens from the rest of the context.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "engine/sampling_params.h"
#include "models/generation_config.h"

namespace nanovllm::cli {

struct SamplingFlags {
  std::optional<int> n;
  std::optional<float> temperature;
  std::optional<int> top_k;
  std::optional<float> top_p;
  std::optional<float> min_p;
  std::optional<uint64_t> seed;
  std::optional<int> max_tokens;
  std::optional<bool> ignore_eos;
  std::optional<std::vector<TokenId>> stop_token_ids;
  std::optional<std::vector<std::string>> stop;
  std::optional<bool> include_stop_str_in_output;
  std::optional<bool> skip_special_tokens;
  std::optional<bool> detokenize;
  std::optional<int> logprobs;
  std::optional<std::vector<TokenId>> allowed_token_ids;
  std::optional<std::vector<std::string>> bad_words;
  std::optional<int> min_tokens;
  std::optional<float> repetition_penalty, frequency_penalty, presence_penalty;
  std::optional<std::map<TokenId, float>> logit_bias;
};

// Fields of `flags`, else of `fallback`.
SamplingFlags merged(const SamplingFlags& flags, const SamplingFlags& fallback);

SamplingParams resolve(const SamplingFlags& flags, const GenerationConfig& generation_config);

}  // namespace nanovllm::cli
