#include "tokenizer/detokenizer.h"

#include <string_view>
#include <utility>

#include "base/unicode.h"

namespace nanovllm {

std::string Detokenizer::push(TokenId id) {
  if (special_text_ == SpecialText::kSkip && tokenizer_.is_special(id)) return "";
  held_ += tokenizer_.token_bytes(id);
  // An incomplete character is the last thing in the text, within its last 3 bytes, and begins with its lead
  // byte.
  size_t whole = held_.size();
  for (size_t back = 1; back <= 3 && back <= held_.size(); ++back) {
    const std::string_view tail = std::string_view(held_).substr(held_.size() - back);
    if (utf8_head(tail).kind != Utf8Head::kIncomplete || utf8_head(tail).length != int(back)) continue;
    whole = held_.size() - back;
    break;
  }
  std::string text = replace_invalid_utf8(std::string_view(held_).substr(0, whole));
  held_.erase(0, whole);
  return text;
}

std::string Detokenizer::finish() { return replace_invalid_utf8(std::exchange(held_, {})); }

}  // namespace nanovllm
