// How likely a model finds a text: the probability of each token given those before it.
#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "llm/config.h"
#include "runtime/model_runner.h"
#include "tokenizer/tokenizer.h"

namespace nanovllm {

class Scorer {
 public:
  // config: the limits of a step are set to what scoring needs. throws Error: as LLM
  explicit Scorer(EngineConfig config);

  // visit(i, logits [vocab_size]): of the distribution of token i, for i from `first` (at least 1) to the last.
  // throws Error(kRequest): as check; Error(kCheckpoint): the model gives NaN
  using Visitor = std::function<void(int index, std::span<const float> logits)>;
  void visit_logits(std::span<const TokenId> ids, int first, const Visitor& visit);

  // throws Error(kRequest), naming `what`: no tokens, too many, unknown ids
  void check(std::span<const TokenId> ids, const std::string& what) const;

  // Natural logarithms, of tokens first, first + 1 … throws Error: as visit_logits
  std::vector<double> score(std::span<const TokenId> ids, int first = 1);

  const Tokenizer* tokenizer() const { return tokenizer_ ? &*tokenizer_ : nullptr; }
  const ModelConfig& model_config() const { return model_config_; }
  // Of one text: the context, or what the KV cache holds.
  int max_num_tokens() const { return max_num_tokens_; }

 private:
  ModelConfig model_config_;
  std::optional<Tokenizer> tokenizer_;
  RunnerConfig runner_config_;
  int max_num_tokens_ = 0;
  std::unique_ptr<ModelRunner> runner_;
};

// The logarithm of softmax(logits)[index]: in double, summed in order.
double log_probability(std::span<const float> logits, TokenId index);

// Kullback-Leibler divergence of softmax(q) from softmax(p), in nats: Σ p (log p − log q).
double kl_divergence(std::span<const float> p, std::span<const float> q);

// A text longer than the context, in windows of `window` tokens that begin `stride` apart: each token is scored once, in
// the first window that has it. A token so has at least window − stride tokens before it, where there are as many.
struct ScoreWindow {
  size_t begin = 0, end = 0;  // of the window
  size_t first = 0;           // scored from here; begin < first
};
// window at least 2, stride 1 to window − 1.
std::vector<ScoreWindow> score_windows(size_t num_tokens, size_t window, size_t stride);

}  // namespace nanovllm
