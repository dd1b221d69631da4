// Logprobs of sampled tokens, as a step gives them and as a request gets them.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "base/token.h"

namespace nanovllm {

struct Logprob {
  TokenId id = 0;
  float logprob = 0;
};

// Of a token of an answer, and of the likeliest tokens in its place, likeliest first: of the model's own distribution, before
// anything is changed or filtered.
struct TokenLogprobs {
  float logprob = 0;
  std::vector<Logprob> top;
};

// What a step gives, for rows of logits that want them.
struct StepLogprobs {
  // Of each row: the token's logprob, the logits' largest and the log of their sum (ops/logprobs.h), num_top ids, and their
  // logprobs, all 32 bits.
  static int width(int num_top) { return 3 + 2 * num_top; }

  std::span<const int32_t> rows;  // rising
  int num_top = 0;
  std::span<const int32_t> words;  // [rows, width]
  std::span<const std::vector<float>>
      all_logits;  // [rows] or none: those of rows that want all tokens, else empty

  // Of the i-th of `rows`. num_top: at most as many as there are; -1: all.
  TokenLogprobs at(size_t i, int num_top) const;
};

}  // namespace nanovllm
