#include "tokenizer/stop_matcher.h"

#include <algorithm>
#include <utility>

#include "base/assert.h"

namespace nanovllm {

StopMatcher::StopMatcher(std::vector<std::string> stops, bool keep_stop)
    : stops_(std::move(stops)), keep_stop_(keep_stop) {
  for (const std::string& stop : stops_) {
    ASSERT(!stop.empty());
    longest_ = std::max(longest_, stop.size());
  }
}

const std::string* StopMatcher::longest_that_ends_at(size_t end) const {
  const std::string_view text = std::string_view(held_).substr(0, end);
  const std::string* longest = nullptr;
  for (const std::string& stop : stops_)
    if (text.ends_with(stop) && (!longest || stop.size() > longest->size())) longest = &stop;
  return longest;
}

// From here on the text may be the beginning of one.
size_t StopMatcher::begin_of_hold() const {
  size_t begin = held_.size() - std::min(held_.size(), longest_ > 0 ? longest_ - 1 : 0);
  const auto begins_with = [&](std::string_view tail) {
    return std::ranges::any_of(stops_, [&](const std::string& stop) { return stop.starts_with(tail); });
  };
  while (!begins_with(std::string_view(held_).substr(begin))) ++begin;  // "" ends it
  return begin;
}

std::string StopMatcher::push(std::string_view text) {
  if (found_ || stops_.empty()) return found_ ? "" : std::string(text);
  const size_t known = held_.size();
  held_ += text;
  for (size_t end = known + 1; end <= held_.size(); ++end)
    if (const std::string* stop = longest_that_ends_at(end)) {
      found_ = *stop;
      std::string answer = held_.substr(0, keep_stop_ ? end : end - stop->size());
      held_.clear();
      return answer;
    }
  const size_t begin = begin_of_hold();
  std::string certain = held_.substr(0, begin);
  held_.erase(0, begin);
  return certain;
}

std::string StopMatcher::finish() { return std::exchange(held_, {}); }

}  // namespace nanovllm
