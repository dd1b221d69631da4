// Finds the strings that end an answer in a text that comes in pieces, and holds back what may be the beginning of one.
//
// Of all places where one of the strings is, the one that ends first counts; of strings that end there, the longest. So what is
// found does not depend on how the text is cut into pieces.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace nanovllm {

// One per answer.
class StopMatcher {
 public:
  // None of `stops` is empty. keep_stop: what was found is part of the answer.
  StopMatcher(std::vector<std::string> stops, bool keep_stop);

  // → what is certain to be in the answer now; "" once something was found
  std::string push(std::string_view text);
  std::string finish();  // nothing more comes → what was held back
  const std::optional<std::string>& found() const { return found_; }

 private:
  const std::string* longest_that_ends_at(size_t end) const;
  size_t begin_of_hold() const;

  std::vector<std::string> stops_;
  bool keep_stop_;
  size_t longest_ = 0;
  std::string held_;  // a proper prefix of one of stops_
  std::optional<std::string> found_;
};

}  // namespace nanovllm
