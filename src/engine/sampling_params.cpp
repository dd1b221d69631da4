#include "engine/sampling_params.h"

#include <algorithm>
#include <span>

#include "base/error.h"
#include "base/unicode.h"

namespace nanovllm {
namespace {

void check_ids(const char* name, std::span<const TokenId> ids, int64_t vocab_size) {
  for (const TokenId id : ids)
    if (id < 0 || id >= vocab_size)
      fail(ErrorKind::kRequest, name, ": has ", id, ", want ids from 0 to ", vocab_size - 1);
}

void check_texts(const char* name, const std::vector<std::string>& texts, size_t most) {
  if (texts.size() > most)
    fail(ErrorKind::kRequest, name, ": has ", texts.size(), " strings, want at most ", most);
  for (const std::string& text : texts) {
    if (text.empty()) fail(ErrorKind::kRequest, name, ": has an empty string, want none");
    if (find_invalid_utf8(text) < text.size())
      fail(ErrorKind::kRequest, name,
           ": has a string that is no UTF-8, want UTF-8: ", replace_invalid_utf8(text.substr(0, 80)));
    if (text.size() > kMaxStringBytes)
      fail(ErrorKind::kRequest, name, ": has a string of ", text.size(), " bytes, want at most ",
           kMaxStringBytes);
  }
}

// Written so that NaN fails.
void check_range(const char* name, float value, float least, float most) {
  if (!(value >= least && value <= most))
    fail(ErrorKind::kRequest, name, ": is ", value, ", want ", least, " to ", most);
}

void check_logits_edits(const SamplingParams& params, int64_t vocab_size) {
  if (params.allowed_token_ids) {
    check_ids("allowed_token_ids", *params.allowed_token_ids, vocab_size);
    if (params.allowed_token_ids->empty())
      fail(ErrorKind::kRequest, "allowed_token_ids: has no ids, want at least 1");
  }
  check_texts("bad_words", params.bad_words, kMaxBadWords);
  if (params.min_tokens < 0 || params.min_tokens > params.max_tokens)
    fail(ErrorKind::kRequest, "min_tokens: is ", params.min_tokens,
         ", want 0 to max_tokens=", params.max_tokens);
  check_range("repetition_penalty", params.repetition_penalty, 0.001f, 1000);
  check_range("frequency_penalty", params.frequency_penalty, -2, 2);
  check_range("presence_penalty", params.presence_penalty, -2, 2);
  if (params.logit_bias.size() > kMaxLogitBiases)
    fail(ErrorKind::kRequest, "logit_bias: has ", params.logit_bias.size(), " ids, want at most ",
         kMaxLogitBiases);
  for (const auto& [id, bias] : params.logit_bias) {
    check_ids("logit_bias", std::span(&id, 1), vocab_size);
    if (!(bias >= -100 && bias <= 100))
      fail(ErrorKind::kRequest, "logit_bias: has ", bias, " for id ", id, ", want -100 to 100");
  }
}

}  // namespace

void check_sampling_params(const SamplingParams& params, int64_t vocab_size) {
  if (params.n < 1 || params.n > kMaxCompletions)
    fail(ErrorKind::kRequest, "n: is ", params.n, ", want 1 to ", kMaxCompletions);
  check_range("temperature", params.temperature, 0, 2);
  if (params.top_k < -1) fail(ErrorKind::kRequest, "top_k: is ", params.top_k, ", want 0 (all) or more");
  if (!(params.top_p > 0 && params.top_p <= 1))
    fail(ErrorKind::kRequest, "top_p: is ", params.top_p, ", want more than 0 and at most 1");
  check_range("min_p", params.min_p, 0, 1);
  if (params.max_tokens < 1)
    fail(ErrorKind::kRequest, "max_tokens: is ", params.max_tokens, ", want at least 1");
  check_ids("stop_token_ids", params.stop_token_ids, vocab_size);
  if (params.stop_token_ids.size() > kMaxStopTokenIds)
    fail(ErrorKind::kRequest, "stop_token_ids: has ", params.stop_token_ids.size(), " ids, want at most ",
         kMaxStopTokenIds);
  check_texts("stop", params.stop, kMaxStops);
  if (!params.stop.empty() && !params.detokenize)
    fail(ErrorKind::kRequest, "stop: has strings, and detokenize is false, want it true to find them");
  if (params.logprobs &&
      (*params.logprobs < -1 || *params.logprobs > std::min<int64_t>(kMaxLogprobs, vocab_size)))
    fail(ErrorKind::kRequest, "logprobs: is ", *params.logprobs, ", want 0 to ",
         std::min<int64_t>(kMaxLogprobs, vocab_size), ", or -1 (all)");
  check_logits_edits(params, vocab_size);
}

}  // namespace nanovllm
