#include "checkpoint/printable.h"

#include <algorithm>

#include "base/unicode.h"

namespace nanovllm {
namespace {

constexpr size_t kMaxBytes = 120;
constexpr size_t kFew = 5;

}  // namespace

std::string printable(std::string_view name) {
  std::string text(name.substr(0, kMaxBytes));
  std::replace_if(
      text.begin(), text.end(), [](char c) { return (c >= 0 && c < ' ') || c == 0x7F; }, '?');
  text = replace_invalid_utf8(text);
  if (name.size() > kMaxBytes) text += "...";
  return text;
}

std::string first_few(const std::vector<std::string>& names) {
  std::string text;
  for (size_t i = 0; i < std::min(names.size(), kFew); ++i) text += (i ? ", " : "") + printable(names[i]);
  if (names.size() > kFew) text += " and " + std::to_string(names.size() - kFew) + " more";
  return text;
}

}  // namespace nanovllm
