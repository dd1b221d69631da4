#include "tokenizer/prompt_text.h"

#include <algorithm>
#include <bit>

#include "base/assert.h"
#include "base/error.h"

namespace nanovllm {

namespace {

// Whether both bytes continue a character, or begin one of the same length.
bool same_utf8_class(char a, char b) {
  const auto utf8_class = [](char c) { return std::countl_one(static_cast<unsigned char>(c)); };
  return utf8_class(a) == utf8_class(b);
}

}  // namespace

PromptText::PromptText(std::string text, Origin origin) : text_(std::move(text)) {
  if (origin == Origin::kMessage) mark(0, text_.size());
}

void PromptText::mark(size_t begin, size_t end) {
  if (begin == end) return;
  if (!ranges_.empty() && ranges_.back().end == begin)
    ranges_.back().end = end;
  else
    ranges_.push_back({begin, end});
}

Origin PromptText::origin_at(size_t offset) const {
  const auto range = std::upper_bound(ranges_.begin(), ranges_.end(), offset,
                                      [](size_t at, const ByteRange& r) { return at < r.end; });
  return range != ranges_.end() && range->begin <= offset ? Origin::kMessage : Origin::kTemplate;
}

void PromptText::append(std::string_view text, Origin origin) {
  text_ += text;
  if (origin == Origin::kMessage) mark(text_.size() - text.size(), text_.size());
}

PromptText& PromptText::operator+=(const PromptText& other) {
  append_part(other, other.text_);
  return *this;
}

void PromptText::append_part(const PromptText& whole, std::string_view part) {
  ASSERT(this != &whole);
  const size_t begin = size_t(part.data() - whole.text_.data()), end = begin + part.size();
  if (part.empty()) return;
  ASSERT(begin <= whole.size() && end <= whole.size());
  const size_t at = text_.size();
  text_ += part;
  auto range = std::upper_bound(whole.ranges_.begin(), whole.ranges_.end(), begin,
                                [](size_t offset, const ByteRange& r) { return offset < r.end; });
  for (; range != whole.ranges_.end() && range->begin < end; ++range)
    mark(at + std::max(range->begin, begin) - begin, at + std::min(range->end, end) - begin);
}

PromptText PromptText::part(std::string_view part) const {
  PromptText out;
  out.append_part(*this, part);
  return out;
}

PromptText PromptText::changed_to(std::string text) const {
  if (!std::equal(text.begin(), text.end(), text_.begin(), text_.end(), same_utf8_class))
    return PromptText(std::move(text), worst_origin());
  PromptText out;
  out.text_ = std::move(text);
  out.ranges_ = ranges_;
  return out;
}

}  // namespace nanovllm
