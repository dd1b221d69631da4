#include "cli/sampling_flags.h"

#include <limits>

namespace nanovllm::cli {
namespace {

template <class T>
std::optional<T> first_of(const std::optional<T>& a, const std::optional<T>& b) {
  return a ? a : b;
}

}  // namespace

SamplingFlags merged(const SamplingFlags& flags, const SamplingFlags& fallback) {
  return {.n = first_of(flags.n, fallback.n),
          .temperature = first_of(flags.temperature, fallback.temperature),
          .top_k = first_of(flags.top_k, fallback.top_k),
          .top_p = first_of(flags.top_p, fallback.top_p),
          .min_p = first_of(flags.min_p, fallback.min_p),
          .seed = first_of(flags.seed, fallback.seed),
          .max_tokens = first_of(flags.max_tokens, fallback.max_tokens),
          .ignore_eos = first_of(flags.ignore_eos, fallback.ignore_eos),
          .stop_token_ids = first_of(flags.stop_token_ids, fallback.stop_token_ids),
          .stop = first_of(flags.stop, fallback.stop),
          .include_stop_str_in_output =
              first_of(flags.include_stop_str_in_output, fallback.include_stop_str_in_output),
          .skip_special_tokens = first_of(flags.skip_special_tokens, fallback.skip_special_tokens),
          .detokenize = first_of(flags.detokenize, fallback.detokenize),
          .logprobs = first_of(flags.logprobs, fallback.logprobs),
          .allowed_token_ids = first_of(flags.allowed_token_ids, fallback.allowed_token_ids),
          .bad_words = first_of(flags.bad_words, fallback.bad_words),
          .min_tokens = first_of(flags.min_tokens, fallback.min_tokens),
          .repetition_penalty = first_of(flags.repetition_penalty, fallback.repetition_penalty),
          .frequency_penalty = first_of(flags.frequency_penalty, fallback.frequency_penalty),
          .presence_penalty = first_of(flags.presence_penalty, fallback.presence_penalty),
          .logit_bias = first_of(flags.logit_bias, fallback.logit_bias)};
}

SamplingParams resolve(const SamplingFlags& flags, const GenerationConfig& generation_config) {
  SamplingParams params;
  params.n = flags.n.value_or(1);
  const bool greedy = !generation_config.do_sample.value_or(true);
  params.temperature =
      flags.temperature.value_or(greedy ? 0.0f : generation_config.temperature.value_or(params.temperature));
  params.top_k = flags.top_k.value_or(generation_config.top_k.value_or(params.top_k));
  params.top_p = flags.top_p.value_or(generation_config.top_p.value_or(params.top_p));
  params.min_p = flags.min_p.value_or(generation_config.min_p.value_or(params.min_p));
  params.seed = flags.seed;
  // The scheduler ends a sequence at the end of the context.
  params.max_tokens = flags.max_tokens.value_or(std::numeric_limits<int>::max());
  params.ignore_eos = flags.ignore_eos.value_or(false);
  params.stop_token_ids = flags.stop_token_ids.value_or(std::vector<TokenId>{});
  params.stop = flags.stop.value_or(std::vector<std::string>{});
  params.include_stop_str_in_output = flags.include_stop_str_in_output.value_or(false);
  params.skip_special_tokens = flags.skip_special_tokens.value_or(true);
  params.detokenize = flags.detokenize.value_or(true);
  params.logprobs = flags.logprobs;
  params.allowed_token_ids = flags.allowed_token_ids;
  params.bad_words = flags.bad_words.value_or(std::vector<std::string>{});
  params.min_tokens = flags.min_tokens.value_or(0);
  params.repetition_penalty = flags.repetition_penalty.value_or(
      generation_config.repetition_penalty.value_or(params.repetition_penalty));
  params.frequency_penalty = flags.frequency_penalty.value_or(0);
  params.presence_penalty = flags.presence_penalty.value_or(0);
  params.logit_bias = flags.logit_bias.value_or(std::map<TokenId, float>{});
  return params;
}

}  // namespace nanovllm::cli
