// What a request wants changed in the logits of its next token before that is sampled (ops/edit_logits.h): penalties, biases, words
// and tokens that must not come.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "base/token.h"
#include "engine/sampling_params.h"

namespace nanovllm {

struct LogitsEdit {
  TokenId id = 0;
  bool penalized = false;  // by repetition_penalty
  double addend = 0;       // −infinity: the token cannot come
};

class LogitsEdits {
 public:
  // end_token_ids: those that end this sequence, masked until there are min_tokens. bad_words: each as token ids, none empty.
  LogitsEdits(const SamplingParams& params, std::span<const TokenId> prompt,
              std::vector<TokenId> end_token_ids, std::vector<std::vector<TokenId>> bad_words,
              int64_t vocab_size);

  // Whether these parameters want anything changed.
  static bool are_wanted(const SamplingParams& params);

  void add_output(TokenId id);
  // Whether nothing is changed any more, behind so many tokens.
  bool are_over(int num_output_tokens) const;
  // Of the token behind `output`, by rising id, each once; `edits` is filled anew.
  void collect(std::span<const TokenId> output, std::vector<LogitsEdit>& edits) const;

  float repetition_penalty() const { return repetition_penalty_; }
  // A bit for each id that may come, in words of 32; none: all may.
  std::span<const uint32_t> allowed() const { return allowed_; }

 private:
  struct Count {  // of a token that was there
    TokenId id;
    int in_output;
  };
  struct Bias {
    TokenId id;
    float value;
  };
  bool has_penalties() const;

  float repetition_penalty_;
  double presence_penalty_, frequency_penalty_;
  int min_tokens_;
  std::vector<Count> counts_;  // by rising id; of penalties only
  std::vector<Bias> biases_;   // by rising id
  std::vector<TokenId> end_token_ids_;
  std::vector<std::vector<TokenId>> bad_words_;
  std::vector<uint32_t> allowed_;
};

}  // namespace nanovllm
