#include "tokenizer/added_tokens.h"

#include <utf8proc.h>

#include <algorithm>
#include <utility>

#include "base/unicode.h"

namespace nanovllm {
namespace {

// \w of Rust's regex: Alphabetic, marks, decimal digits, connector punctuation, join controls (Unicode
// Technical Standard 18, annex C). Alphabetic beyond the letter categories is marks and the circled and
// squared Latin letters.
bool is_word_character(char32_t c) {
  if (c == 0x200C || c == 0x200D) return true;
  if ((c >= 0x24B6 && c <= 0x24E9) || (c >= 0x1F130 && c <= 0x1F149) || (c >= 0x1F150 && c <= 0x1F169) ||
      (c >= 0x1F170 && c <= 0x1F189))
    return true;
  switch (utf8proc_category(utf8proc_int32_t(c))) {
    case UTF8PROC_CATEGORY_LU:
    case UTF8PROC_CATEGORY_LL:
    case UTF8PROC_CATEGORY_LT:
    case UTF8PROC_CATEGORY_LM:
    case UTF8PROC_CATEGORY_LO:
    case UTF8PROC_CATEGORY_MN:
    case UTF8PROC_CATEGORY_MC:
    case UTF8PROC_CATEGORY_ME:
    case UTF8PROC_CATEGORY_ND:
    case UTF8PROC_CATEGORY_NL:
    case UTF8PROC_CATEGORY_PC:
      return true;
    default:
      return false;
  }
}

// The property White_Space.
bool is_white_space(char32_t c) {
  return (c >= 0x09 && c <= 0x0D) || c == 0x20 || c == 0x85 || c == 0xA0 || c == 0x1680 ||
         (c >= 0x2000 && c <= 0x200A) || c == 0x2028 || c == 0x2029 || c == 0x202F || c == 0x205F ||
         c == 0x3000;
}

size_t last_character(std::string_view text) {
  size_t begin = text.size() - 1;
  while (begin > 0 && (text[begin] & 0xC0) == 0x80) --begin;
  return begin;
}

bool ends_with_word(std::string_view text) {
  return !text.empty() && is_word_character(utf8_head(text.substr(last_character(text))).code_point);
}

bool starts_with_word(std::string_view text) {
  return !text.empty() && is_word_character(utf8_head(text).code_point);
}

size_t skip_space_backward(std::string_view text, size_t end) {
  while (end > 0) {
    const size_t begin = last_character(text.substr(0, end));
    if (!is_white_space(utf8_head(text.substr(begin)).code_point)) break;
    end = begin;
  }
  return end;
}

size_t skip_space_forward(std::string_view text, size_t begin) {
  while (begin < text.size()) {
    const Utf8Head head = utf8_head(text.substr(begin));
    if (!is_white_space(head.code_point)) break;
    begin += size_t(head.length);
  }
  return begin;
}

}  // namespace

AddedTokenFinder::AddedTokenFinder(std::vector<AddedToken> tokens) : tokens_(std::move(tokens)) {
  std::sort(tokens_.begin(), tokens_.end(),
            [](const AddedToken& a, const AddedToken& b) { return a.content < b.content; });
  for (const AddedToken& token : tokens_) {
    starts_[static_cast<unsigned char>(token.content.at(0))] = true;
    is_blank_.push_back(skip_space_forward(token.content, 0) == token.content.size());
  }
}

// Narrows the sorted tokens byte by byte to those that begin as the text does. trusted: the bytes until a
// message's begin.
const AddedToken* AddedTokenFinder::longest_at(std::string_view text, size_t trusted) const {
  const AddedToken* longest = nullptr;
  auto first = tokens_.begin(), last = tokens_.end();
  for (size_t depth = 0; depth < text.size() && first != last; ++depth) {
    const auto byte = static_cast<unsigned char>(text[depth]);
    const auto byte_at = [depth](const AddedToken& token) {
      return depth < token.content.size() ? int(static_cast<unsigned char>(token.content[depth])) : -1;
    };
    first = std::partition_point(first, last, [&](const AddedToken& token) { return byte_at(token) < byte; });
    last = std::partition_point(first, last, [&](const AddedToken& token) { return byte_at(token) <= byte; });
    if (first != last && first->content.size() == depth + 1 &&
        (depth < trusted || is_blank_[size_t(first - tokens_.begin())]))
      longest = &*first;
  }
  return longest;
}

std::vector<TextPart> AddedTokenFinder::split(std::string_view text,
                                              std::span<const ByteRange> message_ranges) const {
  std::vector<TextPart> parts;
  size_t covered = 0;
  auto message = message_ranges.begin();  // the first that does not end before `at`
  for (size_t at = 0; at < text.size();) {
    if (!starts_[static_cast<unsigned char>(text[at])]) {
      ++at;
      continue;
    }
    while (message != message_ranges.end() && message->end <= at) ++message;
    const size_t trusted_end = message == message_ranges.end() ? text.size() : message->begin;
    const AddedToken* token = longest_at(text.substr(at), trusted_end > at ? trusted_end - at : 0);
    if (!token) {
      ++at;
      continue;
    }
    // The search goes on behind the content even where the token is passed over or takes white space, as in
    // Hugging Face.
    size_t begin = at, end = at + token->content.size();
    at = end;
    if (token->single_word && (ends_with_word(text.substr(0, begin)) || starts_with_word(text.substr(end))))
      continue;
    if (token->lstrip) begin = std::max(skip_space_backward(text, begin), covered);
    if (token->rstrip) end = skip_space_forward(text, end);
    if (covered < begin) parts.push_back({text.substr(covered, begin - covered)});
    parts.push_back({begin < end ? text.substr(begin, end - begin) : std::string_view(), token->id});
    covered = end;
  }
  if (covered < text.size()) parts.push_back({text.substr(covered)});
  return parts;
}

}  // namespace nanovllm
