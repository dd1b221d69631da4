#include "cli/progress.h"

#include <unistd.h>

#include <cstdio>
#include <sstream>

namespace nanovllm::cli {

ProgressLine::ProgressLine() : shown_(isatty(STDERR_FILENO) == 1) {}

ProgressLine::~ProgressLine() { clear(); }

bool ProgressLine::is_due() {
  const Clock::time_point now = Clock::now();
  if (!shown_ || now - last_drawn_ < std::chrono::milliseconds(100)) return false;
  last_drawn_ = now;
  return true;
}

void ProgressLine::write(const std::string& text) {
  drawn_ = true;
  std::fprintf(stderr, "\r\033[K%s", text.c_str());
}

void ProgressLine::clear() {
  if (drawn_) std::fprintf(stderr, "\r\033[K");
  drawn_ = false;
}

void Progress::add_step(const StepStats& step) {
  if (step.num_prefill_tokens > 0) {
    prefill_tokens_ += step.num_prefill_tokens;
    prefill_seconds_ += step.seconds;
  } else {
    decode_tokens_ += step.num_output_tokens;
    decode_seconds_ += step.seconds;
  }
  line_.draw([&] { return text(); });
}

std::string Progress::text() const {
  std::ostringstream text;
  text << num_finished_ << "/" << num_answers_ << " answers";
  if (prefill_seconds_ > 0) text << ", prefill " << int(prefill_tokens_ / prefill_seconds_) << " tok/s";
  if (decode_seconds_ > 0) text << ", decode " << int(decode_tokens_ / decode_seconds_) << " tok/s";
  return text.str();
}

}  // namespace nanovllm::cli
