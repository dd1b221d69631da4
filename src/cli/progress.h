// One line on stderr, rewritten as work goes on.
#pragma once

#include <string>

#include "llm/llm.h"

namespace nanovllm::cli {

// A line that is drawn over.
class ProgressLine {
 public:
  // Draws only where stderr is a terminal.
  ProgressLine();
  ~ProgressLine();  // clears the line
  ProgressLine(const ProgressLine&) = delete;
  ProgressLine& operator=(const ProgressLine&) = delete;

  // At most ten times a second; text() is called where it is drawn.
  template <class Text>
  void draw(const Text& text) {
    if (is_due()) write(text());
  }
  // Removes the line, so that something else can be printed.
  void clear();

 private:
  bool is_due();
  void write(const std::string& text);

  bool shown_;
  bool drawn_ = false;
  Clock::time_point last_drawn_;
};

// How many answers are done, and how fast.
class Progress {
 public:
  explicit Progress(size_t num_answers) : num_answers_(num_answers) {}

  void add_finished() { ++num_finished_; }
  void add_step(const StepStats& step);
  void clear() { line_.clear(); }

  // "12/40 answers, prefill 3021 tok/s, decode 410 tok/s"
  std::string text() const;

 private:
  ProgressLine line_;
  size_t num_answers_;
  size_t num_finished_ = 0;
  double prefill_tokens_ = 0, prefill_seconds_ = 0;  // of steps with prompt tokens
  double decode_tokens_ = 0, decode_seconds_ = 0;    // of steps without
};

}  // namespace nanovllm::cli
