// How one request is sampled and when it ends. Names and ranges as in vLLM; defaults as in nano-vllm.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "base/token.h"

namespace nanovllm {

inline constexpr int kMaxCompletions = 128;
inline constexpr int kMaxLogprobs = 64;
inline constexpr size_t kMaxStops = 64;
inline constexpr size_t kMaxStringBytes = 1024;  // of a stop string or a bad word
inline constexpr size_t kMaxStopTokenIds = 1024, kMaxLogitBiases = 1024, kMaxBadWords = 256;
inline constexpr size_t kMaxEosTokenIds = 64;  // that a model names

struct SamplingParams {
  int n = 1;                     // completions of the prompt, at most kMaxCompletions; greedy ones are equal
  float temperature = 1;         // 0 … 2; below 1e-5: greedy
  int top_k = 0;                 // the k likeliest tokens; 0 or -1: all
  float top_p = 1;               // (0, 1]: the fewest tokens whose probabilities reach it
  float min_p = 0;               // [0, 1]: tokens with at least this part of the likeliest one's probability
  std::optional<uint64_t> seed;  // none: drawn at admission
  int max_tokens = 64;           // at least 1
  bool ignore_eos = false;       // go on past EOS; stop_token_ids still stop
  std::vector<TokenId> stop_token_ids;  // at most kMaxStopTokenIds
  // Strings that end the answer, at most kMaxStops of kMaxStringBytes, none empty, wherever tokens begin and end
  // (tokenizer/stop_matcher.h): nothing from the first one on is given out.
  std::vector<std::string> stop;
  bool include_stop_str_in_output =
      false;                        // the answer holds what ended it: the string, or the stop token's text
  bool skip_special_tokens = true;  // they have no text
  bool detokenize = true;           // false: token ids only, without text

  // Logprobs of each token of the answer, and of so many of the likeliest in its place (0 … kMaxLogprobs; -1: all); none: not
  // wanted. Of the model's own distribution, before what follows changes it.
  std::optional<int> logprobs;

  // What changes the logits, in this order (engine/logits_edits.h); 0 (repetition: 1) changes nothing.
  std::optional<std::vector<TokenId>> allowed_token_ids;  // not empty: no other comes
  // At most kMaxBadWords strings of kMaxStringBytes, none empty. The answer does not have their tokens, as they stand or behind a
  // space; others may spell them.
  std::vector<std::string> bad_words;
  int min_tokens = 0;  // nothing ends the answer before; at most max_tokens
  // 0.001 … 1,000: the logit of a token that prompt or answer has is divided by it, or, if negative, times it.
  float repetition_penalty = 1;
  float frequency_penalty = 0;  // -2 … 2: a token's logit loses it for each time that the answer has it
  float presence_penalty = 0;   // -2 … 2: and this, if it has it at all
  std::map<TokenId, float> logit_bias;  // -100 … 100: added to the logit; at most kMaxLogitBiases
};

// How many answers these parameters get: n, or one where n is not in its range.
inline size_t num_completions(const SamplingParams& params) {
  return params.n >= 1 && params.n <= kMaxCompletions ? size_t(params.n) : 1;
}

// throws Error(kRequest), naming the parameter, what it is and what was wanted
void check_sampling_params(const SamplingParams& params, int64_t vocab_size);

}  // namespace nanovllm
