#include "engine/logits_edits.h"

#include <algorithm>
#include <limits>

#include "base/assert.h"

namespace nanovllm {
namespace {

constexpr float kNever = -std::numeric_limits<float>::infinity();

bool by_id(const LogitsEdit& a, const LogitsEdit& b) { return a.id < b.id; }

}  // namespace

bool LogitsEdits::are_wanted(const SamplingParams& p) {
  return p.repetition_penalty != 1 || p.presence_penalty != 0 || p.frequency_penalty != 0 ||
         p.min_tokens > 0 || !p.logit_bias.empty() || p.allowed_token_ids || !p.bad_words.empty();
}

LogitsEdits::LogitsEdits(const SamplingParams& params, std::span<const TokenId> prompt,
                         std::vector<TokenId> end_token_ids, std::vector<std::vector<TokenId>> bad_words,
                         int64_t vocab_size)
    : repetition_penalty_(params.repetition_penalty),
      presence_penalty_(params.presence_penalty),
      frequency_penalty_(params.frequency_penalty),
      min_tokens_(params.min_tokens),
      end_token_ids_(std::move(end_token_ids)),
      bad_words_(std::move(bad_words)) {
  for (const auto& [id, value] : params.logit_bias) biases_.push_back({id, value});
  if (repetition_penalty_ != 1)
    for (const TokenId id : prompt) add(id, 0);
  if (!params.allowed_token_ids) return;
  allowed_.resize(size_t(vocab_size + 31) / 32, 0);
  for (const TokenId id : *params.allowed_token_ids) allowed_[size_t(id) / 32] |= 1u << (id % 32);
}

void LogitsEdits::add(TokenId id, int in_output) {
  const auto at = std::ranges::lower_bound(counts_, id, {}, &Count::id);
  if (at != counts_.end() && at->id == id)
    at->in_output += in_output;
  else
    counts_.insert(at, {id, in_output});
}

void LogitsEdits::add_output(TokenId id) {
  if (repetition_penalty_ != 1 || presence_penalty_ != 0 || frequency_penalty_ != 0) add(id, 1);
}

void LogitsEdits::collect(std::span<const TokenId> output, std::vector<LogitsEdit>& edits) const {
  edits.clear();
  for (const Bias& bias : biases_) edits.push_back({bias.id, false, bias.value});
  if (int(output.size()) < min_tokens_)
    for (const TokenId id : end_token_ids_) edits.push_back({id, false, kNever});
  for (const std::vector<TokenId>& word : bad_words_) {
    const auto beginning = std::span(word).first(word.size() - 1);
    if (beginning.size() <= output.size() && std::ranges::equal(beginning, output.last(beginning.size())))
      edits.push_back({word.back(), false, kNever});
  }
  std::ranges::sort(edits, by_id);
  const auto num_others = std::ptrdiff_t(edits.size());
  for (const Count& count : counts_) {
    const double penalty =
        count.in_output > 0 ? frequency_penalty_ * count.in_output + presence_penalty_ : 0.0;
    edits.push_back({count.id, repetition_penalty_ != 1, float(-penalty)});
  }
  std::inplace_merge(edits.begin(), edits.begin() + num_others, edits.end(), by_id);
  size_t num_kept = 0;
  for (const LogitsEdit& edit : edits) {
    if (num_kept > 0 && edits[num_kept - 1].id == edit.id) {
      edits[num_kept - 1].penalized |= edit.penalized;
      edits[num_kept - 1].addend += edit.addend;
    } else {
      edits[num_kept++] = edit;
    }
  }
  edits.resize(num_kept);
}

}  // namespace nanovllm
