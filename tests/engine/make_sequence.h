// Sequences as LLM::add_request makes them, for tests.
#pragma once

#include <memory>
#include <numeric>
#include <utility>
#include <vector>

#include "engine/sequence.h"

namespace nanovllm::test {

inline std::unique_ptr<Sequence> make_sequence(RequestId id, std::vector<TokenId> prompt,
                                               const SamplingParams& params = {}) {
  auto sequence = std::make_unique<Sequence>();
  sequence->id = id;
  sequence->params = params;
  sequence->seed = params.seed.value_or(0);
  sequence->token_ids = std::move(prompt);
  sequence->num_prompt_tokens = sequence->num_tokens();
  sequence->arrival_time = Clock::now();
  return sequence;
}

// count ids: first, first + 1, ...
inline std::vector<TokenId> ids(int count, TokenId first = 0) {
  std::vector<TokenId> result(static_cast<size_t>(count));
  std::iota(result.begin(), result.end(), first);
  return result;
}

}  // namespace nanovllm::test
