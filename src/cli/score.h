// nanovllm score: how likely a model finds a text.
//
//   score MODEL TEXT               the log-probability of each token, their mean, the perplexity
//   score MODEL --input FILE       the perplexity of a file, in windows
//   score MODEL --choices FILE     multiple choice: JSONL of {"prompt", "choices", "answer"}, texts or token ids
//   … --against MODEL              how far another model (or the same with other options) is from this one
#pragma once

#include <filesystem>
#include <optional>
#include <string>

#include "llm/config.h"

namespace nanovllm::cli {

struct ScoreOptions {
  EngineConfig engine;
  std::string model_name;  // as it was asked for
  std::optional<std::string> text;
  std::filesystem::path input;    // "-" is standard input; empty: none
  std::filesystem::path choices;  // likewise
  int window = 0;                 // tokens; 0: the model's context, or 256 with `against`
  int stride = 0;                 // 0: half of the window
  EngineConfig against;           // model empty: none
  bool json = false;
};

// The exit code. throws Error
int run_score(const ScoreOptions& options);

}  // namespace nanovllm::cli
