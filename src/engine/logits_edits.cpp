#include "engine/logits_edits.h"

#include <algorithm>
#include <limits>

namespace nanovllm {
namespace {

constexpr double kNever = -std::numeric_limits<double>::infinity();

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
  if (repetition_penalty_ != 1) {
    std::vector<TokenId> ids(prompt.begin(), prompt.end());
    std::ranges::sort(ids);
    ids.erase(std::unique(ids.begin(), ids.end()), ids.end());
    for (const TokenId id : ids) counts_.push_back({id, 0});
  }
  if (!params.allowed_token_ids) return;
  allowed_.resize(size_t(vocab_size + 31) / 32, 0);
  for (const TokenId id : *params.allowed_token_ids) allowed_[size_t(id) / 32] |= 1u << (id % 32);
}

bool LogitsEdits::has_penalties() const {
  return repetition_penalty_ != 1 || presence_penalty_ != 0 || frequency_penalty_ != 0;
}

bool LogitsEdits::are_over(int num_output_tokens) const {
  return num_output_tokens >= min_tokens_ && !has_penalties() && biases_.empty() && bad_words_.empty() &&
         allowed_.empty();
}

void LogitsEdits::add_output(TokenId id) {
  if (!has_penalties()) return;
  const auto at = std::ranges::lower_bound(counts_, id, {}, &Count::id);
  if (at != counts_.end() && at->id == id)
    ++at->in_output;
  else
    counts_.insert(at, {id, 1});
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
  size_t num_kept = 0;  // each id once
  for (const LogitsEdit& edit : edits) {
    if (num_kept > 0 && edits[num_kept - 1].id == edit.id)
      edits[num_kept - 1].addend += edit.addend;
    else
      edits[num_kept++] = edit;
  }
  // Penalties are merged in from behind, where there is room for all.
  edits.resize(num_kept + counts_.size());
  size_t to = edits.size();
  for (size_t i = counts_.size(); i > 0; --i) {
    const Count& count = counts_[i - 1];
    while (num_kept > 0 && edits[num_kept - 1].id > count.id) edits[--to] = edits[--num_kept];
    LogitsEdit& edit = edits[--to] = {count.id, repetition_penalty_ != 1, 0};
    if (count.in_output > 0) edit.addend = -(frequency_penalty_ * count.in_output + presence_penalty_);
    if (num_kept > 0 && edits[num_kept - 1].id == count.id) edit.addend += edits[--num_kept].addend;
  }
  // Between what stays at the beginning and what was merged there is a gap for each id that was in both.
  edits.erase(edits.begin() + std::ptrdiff_t(num_kept), edits.begin() + std::ptrdiff_t(to));
}

}  // namespace nanovllm
