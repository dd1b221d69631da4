#include "tokenizer/jinja_source.h"

#include <algorithm>

#include "base/unicode.h"
#include "tokenizer/jinja_text.h"

namespace nanovllm::jinja {

std::string Source::where(size_t offset) const {
  const std::string_view before = std::string_view(text).substr(0, offset);
  const size_t line = size_t(std::count(before.begin(), before.end(), '\n')) + 1;
  const size_t newline = before.rfind('\n');
  const size_t column = count_characters(before.substr(newline == before.npos ? 0 : newline + 1)) + 1;
  return name + ":" + std::to_string(line) + ":" + std::to_string(column);
}

Source make_source(std::string name, std::string_view text) {
  const size_t invalid = find_invalid_utf8(text);
  if (invalid != text.npos) fail(ErrorKind::kConfig, name, ": byte ", invalid, " is not UTF-8");
  Source source{std::move(name), {}};
  source.text.reserve(text.size());
  for (size_t i = 0; i < text.size(); ++i) {
    if (text[i] == '\r') {
      source.text += '\n';
      if (i + 1 < text.size() && text[i + 1] == '\n') ++i;
    } else {
      source.text += text[i];
    }
  }
  if (source.text.ends_with('\n')) source.text.pop_back();
  return source;
}

}  // namespace nanovllm::jinja
