// One line on stderr, rewritten as work goes on: answers done, prefill and decode tokens a second.
#pragma once

#include <string>

#include "llm/llm.h"

namespace nanovllm::cli {

class Progress {
 public:
  // Draws only where stderr is a terminal.
  explicit Progress(size_t num_answers);
  ~Progress();  // clears the line
  Progress(const Progress&) = delete;
  Progress& operator=(const Progress&) = delete;

  void add_finished() { ++num_finished_; }
  void add_step(const StepStats& step);
  // Removes the line, so that something else can be printed.
  void clear();

  // "12/40 answers, prefill 3021 tok/s, decode 410 tok/s"
  std::string text() const;

 private:
  size_t num_answers_;
  bool shown_;
  bool drawn_ = false;
  size_t num_finished_ = 0;
  double prefill_tokens_ = 0, prefill_seconds_ = 0;  // of steps with prompt tokens
  double decode_tokens_ = 0, decode_seconds_ = 0;    // of steps without
  Clock::time_point last_drawn_;
};

}  // namespace nanovllm::cli
