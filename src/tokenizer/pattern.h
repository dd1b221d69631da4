// A pre-tokenizer's regular expression: Oniguruma syntax, as Hugging Face reads it, run by PCRE2.
//
// Only what means the same in both is accepted (groups, look-around, classes, \p{..}, \s \S \d \D,
// quantifiers); the rest
// (\w, \b, \h, &&, back references ...) is refused by name, never approximated. \s and \S become
// \p{White_Space}, because PCRE2's own \s takes U+180E as well. `^` and `$` match at lines, as in Ruby.
#pragma once

#include <cstddef>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

namespace nanovllm {

// A stretch of text, bytes [begin, end), that a pattern matched or that lies between two matches.
struct PatternPart {
  size_t begin, end;
  bool is_match;
};

// Safe to share between threads.
class Pattern {
 public:
  // throws Error(kUnsupported): syntax that PCRE2 reads differently; Error(kConfig): not a regular
  // expression. where: file and field, for errors
  static Pattern regex(std::string_view source, std::string_view where);
  static Pattern literal(std::string_view text, std::string_view where);

  // The whole of text (valid UTF-8), in order, as matches and what lies between; empty matches are parts too.
  // throws Error(kRequest): matching this text takes more steps than PCRE2 allows
  std::vector<PatternPart> find_parts(std::string_view text) const;

 private:
  struct Code;  // the compiled pattern
  struct CodeDeleter {
    void operator()(Code* code) const;
  };
  Pattern(std::string_view source, std::string_view pcre2_source, unsigned options, std::string_view where);

  std::string source_;
  std::unique_ptr<Code, CodeDeleter> code_;
};

// The same expression in PCRE2's syntax (used by Pattern::regex; open to tests).
std::string oniguruma_to_pcre2(std::string_view source, std::string_view where);

}  // namespace nanovllm
