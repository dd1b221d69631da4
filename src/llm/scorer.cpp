#include "llm/scorer.h"

#include <algorithm>
#include <cmath>

#include "base/assert.h"
#include "base/error.h"
#include "engine/batch.h"
#include "llm/load_tokenizer.h"
#include "llm/runner_config.h"
#include "tensor/copy_to_host.h"

namespace nanovllm {
namespace {

constexpr int kTokensPerStep = 64;  // each has a row of logits in the arena

// log Σ exp
double log_sum(std::span<const float> logits) {
  const double max = *std::max_element(logits.begin(), logits.end());
  double sum = 0;
  for (const float x : logits) sum += std::exp(double(x) - max);
  return max + std::log(sum);
}

}  // namespace

Scorer::Scorer(EngineConfig config)
    : model_config_(read_model_config(config.model)), tokenizer_(load_tokenizer(config.model)) {
  config.max_num_seqs = 1;
  config.max_num_batched_tokens = kTokensPerStep;
  runner_config_ = make_runner_config(config, model_config_);
  runner_config_.logits_for_all_rows = true;
  runner_ = std::make_unique<ModelRunner>(config.model, model_config_, runner_config_);
  const int64_t cache = int64_t(runner_->memory_plan().num_blocks) * runner_config_.block_size;
  max_num_tokens_ = int(std::min<int64_t>(runner_config_.max_model_len, cache));
}

void Scorer::check(std::span<const TokenId> ids, const std::string& what) const {
  if (ids.empty() || int64_t(ids.size()) > max_num_tokens_)
    fail(ErrorKind::kRequest, what, ": has ", ids.size(), " tokens, want 1 to ", max_num_tokens_,
         ": the context of ", runner_config_.max_model_len, ", or what the KV cache holds");
  for (const TokenId id : ids)
    if (id < 0 || id >= model_config_.vocab_size)
      fail(ErrorKind::kRequest, what, ": has token id ", id, ", want ids from 0 to ",
           model_config_.vocab_size - 1);
}

void Scorer::visit_logits(std::span<const TokenId> ids, int first, const Visitor& visit) {
  ASSERT(first >= 1);
  check(ids, "text");
  Sequence sequence;
  sequence.token_ids.assign(ids.begin(), ids.end());
  sequence.num_prompt_tokens = int(ids.size());
  for (int i = 0; i * runner_config_.block_size < int(ids.size()); ++i) sequence.block_table.push_back(i);
  Batch batch;
  while (sequence.num_uncomputed_tokens() > 0) {
    const int begin = sequence.num_computed_tokens;
    const int count = sequence.num_scheduled_tokens =
        std::min(kTokensPerStep, sequence.num_uncomputed_tokens());
    build_batch({&sequence}, runner_config_.block_size, batch);
    // Row t tells the distribution of token begin + t + 1; the last one's is of a token that is not there.
    const int from = std::clamp(first - 1 - begin, 0, count);
    want_logits(batch, from, count - from);
    const Tensor logits = runner_->run_logits(batch);
    for (int row = 0; row < count - from; ++row) {
      const int index = begin + from + row + 1;
      if (index >= int(ids.size())) continue;
      const std::vector<float> values = copy_to_host(*runner_config_.ops->device, logits[row]);
      if (std::any_of(values.begin(), values.end(), [](float v) { return std::isnan(v); }))
        fail(ErrorKind::kCheckpoint, "model: gives NaN for token ", index,
             " of the text: its weights are damaged (nanovllm inspect MODEL --trace shows where it begins)");
      visit(index, values);
    }
    sequence.num_computed_tokens += count;
  }
}

std::vector<double> Scorer::score(std::span<const TokenId> ids, int first) {
  std::vector<double> scores;
  visit_logits(ids, first, [&](int index, std::span<const float> logits) {
    scores.push_back(log_probability(logits, ids[size_t(index)]));
  });
  return scores;
}

double log_probability(std::span<const float> logits, TokenId index) {
  return double(logits[size_t(index)]) - log_sum(logits);
}

double kl_divergence(std::span<const float> p, std::span<const float> q) {
  ASSERT(p.size() == q.size());
  const double p_sum = log_sum(p), q_sum = log_sum(q);
  double sum = 0;
  for (size_t i = 0; i < p.size(); ++i) {
    const double log_p = double(p[i]) - p_sum;
    if (const double weight = std::exp(log_p); weight > 0) sum += weight * (log_p - (double(q[i]) - q_sum));
  }
  return sum;
}

std::vector<ScoreWindow> score_windows(size_t num_tokens, size_t window, size_t stride) {
  ASSERT(window >= 2 && stride >= 1 && stride < window);
  std::vector<ScoreWindow> windows;
  for (size_t first = 1, begin = 0; first < num_tokens; begin += stride) {
    const size_t end = std::min(num_tokens, begin + window);
    if (end <= first) continue;
    windows.push_back({begin, end, first});
    first = end;
  }
  return windows;
}

}  // namespace nanovllm
