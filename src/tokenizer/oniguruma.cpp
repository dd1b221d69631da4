// Reads a pattern in Oniguruma's Ruby syntax and writes it for PCRE2, refusing what the two read differently.
#include "base/error.h"
#include "tokenizer/pattern.h"

namespace nanovllm {
namespace {

class Translator {
 public:
  Translator(std::string_view source, std::string_view where) : source_(source), where_(where) {}

  std::string translate() {
    while (at_ < source_.size()) {
      const char c = source_[at_];
      if (c == '\\')
        escape();
      else if (c == '[')
        character_class();
      else if (c == '(')
        group();
      else if (c == '{')
        interval();
      else
        copy(1);
    }
    return out_;
  }

 private:
  [[noreturn]] void refuse(std::string_view what) const {
    fail(ErrorKind::kUnsupported, where_, ": pattern \"", source_, "\" uses ", what, " at byte ", at_,
         ", which is not supported");
  }
  bool next_is(std::string_view text) const { return source_.substr(at_, text.size()) == text; }
  void copy(size_t count) {
    out_ += source_.substr(at_, count);
    at_ += count;
  }

  // \p{..} \P{..} \s \S \d \D, control characters, \xHH, and punctuation for itself.
  void escape() {
    if (at_ + 1 == source_.size()) refuse("a lone \\");
    const char c = source_[at_ + 1];
    if (c == 's' || c == 'S') {
      out_ += c == 's' ? "\\p{White_Space}" : "\\P{White_Space}";
      at_ += 2;
    } else if (c == 'p' || c == 'P') {
      const size_t close = source_.find('}', at_);
      if (!next_is(c == 'p' ? "\\p{" : "\\P{") || close == source_.npos) refuse("\\p without braces");
      copy(close + 1 - at_);
    } else if (std::string_view("dDrntfae").find(c) != std::string_view::npos) {
      copy(2);
    } else if (c == 'x') {
      const std::string_view digits = source_.substr(at_ + 2, 2);
      if (digits.size() < 2 || digits.find_first_not_of("0123456789abcdefABCDEF") != digits.npos ||
          digits[0] > '7')
        refuse("\\x other than \\x00 to \\x7F");
      copy(4);
    } else if (static_cast<unsigned char>(c) < 0x80 && !is_alphanumeric(c)) {
      copy(2);
    } else {
      refuse(std::string("\\") + c);
    }
  }

  static bool is_alphanumeric(char c) {
    return (c >= '0' && c <= '9') || (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z');
  }

  void character_class() {
    copy(1);
    if (next_is("^")) copy(1);
    if (next_is("]")) refuse("] at the start of a class");
    while (at_ < source_.size() && source_[at_] != ']') {
      if (source_[at_] == '\\')
        escape();
      else if (source_[at_] == '[')
        refuse("a class inside a class");
      else if (next_is("&&"))
        refuse("&& in a class");
      else
        copy(1);
    }
    if (at_ == source_.size()) refuse("a class without ]");
    copy(1);
  }

  void group() {
    if (!next_is("(?")) {
      if (next_is("(*")) refuse("(*");
      return copy(1);
    }
    for (const std::string_view head : {"(?i:", "(?:", "(?=", "(?!", "(?<=", "(?<!", "(?>"})
      if (next_is(head)) return copy(head.size());
    refuse(source_.substr(at_, 3));
  }

  // {n}, {n,}, {n,m}. A + after it would be possessive in PCRE2 and a second quantifier in Ruby.
  void interval() {
    const size_t close = source_.find('}', at_);
    const std::string_view body = source_.substr(at_ + 1, close == source_.npos ? 0 : close - at_ - 1);
    if (body.empty() || body[0] == ',' || body.find_first_not_of("0123456789,") != body.npos)
      refuse("{ other than {n,m}");
    if (source_.substr(close + 1, 1) == "+") refuse("}+");
    copy(close + 1 - at_);
  }

  std::string_view source_, where_;
  size_t at_ = 0;
  std::string out_;
};

}  // namespace

std::string oniguruma_to_pcre2(std::string_view source, std::string_view where) {
  return Translator(source, where).translate();
}

}  // namespace nanovllm
