// How one request is sampled and when it ends. Names and ranges as in vLLM; defaults as in nano-vllm.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "base/token.h"

namespace nanovllm {

inline constexpr int kMaxCompletions = 128;
inline constexpr size_t kMaxStops = 64, kMaxStopBytes = 1024;

struct SamplingParams {
  int n = 1;                     // completions of the prompt, at most kMaxCompletions; greedy ones are equal
  float temperature = 1;         // 0 … 2; below 1e-5: greedy
  int top_k = 0;                 // the k likeliest tokens; 0 or -1: all
  float top_p = 1;               // (0, 1]: the fewest tokens whose probabilities reach it
  float min_p = 0;               // [0, 1]: tokens with at least this part of the likeliest one's probability
  std::optional<uint64_t> seed;  // none: drawn at admission
  int max_tokens = 64;           // at least 1
  bool ignore_eos = false;       // go on past EOS; stop_token_ids still stop
  std::vector<TokenId> stop_token_ids;
  // Strings that end the answer, at most kMaxStops of kMaxStopBytes, none empty, wherever tokens begin and end (tokenizer/stop_matcher.h): nothing
  // from the first one on is given out.
  std::vector<std::string> stop;
  bool include_stop_str_in_output =
      false;                        // the answer holds what ended it: the string, or the stop token's text
  bool skip_special_tokens = true;  // they have no text
  bool detokenize = true;           // false: token ids only, without text
};

// How many answers these parameters get: n, or one where n is not in its range.
inline size_t num_completions(const SamplingParams& params) {
  return params.n >= 1 && params.n <= kMaxCompletions ? size_t(params.n) : 1;
}

// throws Error(kRequest), naming the parameter, what it is and what was wanted
void check_sampling_params(const SamplingParams& params, int64_t vocab_size);

}  // namespace nanovllm
