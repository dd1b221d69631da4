#define PCRE2_CODE_UNIT_WIDTH 8
#include "tokenizer/pattern.h"

#include <pcre2.h>

#include "base/error.h"
#include "base/unicode.h"

namespace nanovllm {
namespace {

struct MatchDataDeleter {
  void operator()(pcre2_match_data* data) const { pcre2_match_data_free(data); }
};
struct ContextDeleter {
  void operator()(pcre2_compile_context* context) const { pcre2_compile_context_free(context); }
};

std::string message_of(int error) {
  PCRE2_UCHAR text[256];
  pcre2_get_error_message(error, text, sizeof(text));
  return reinterpret_cast<const char*>(text);
}

}  // namespace

struct Pattern::Code {
  pcre2_code* pcre2;
};

void Pattern::CodeDeleter::operator()(Code* code) const {
  pcre2_code_free(code->pcre2);
  delete code;
}

Pattern::Pattern(std::string_view source, std::string_view pcre2_source, unsigned options,
                 std::string_view where)
    : source_(source) {
  const std::unique_ptr<pcre2_compile_context, ContextDeleter> context(pcre2_compile_context_create(nullptr));
  if (!context) throw std::bad_alloc();
  pcre2_set_newline(context.get(), PCRE2_NEWLINE_LF);  // the only line end of Oniguruma
  int error = 0;
  PCRE2_SIZE offset = 0;
  pcre2_code* code = pcre2_compile(reinterpret_cast<PCRE2_SPTR>(pcre2_source.data()), pcre2_source.size(),
                                   options | PCRE2_UTF, &error, &offset, context.get());
  if (!code)
    fail(ErrorKind::kConfig, where, ": pattern \"", source,
         "\" is not a regular expression: ", message_of(error));
  code_.reset(new Code{code});
  // Where the processor has no JIT, the interpreter gives the same matches.
  pcre2_jit_compile(code, PCRE2_JIT_COMPLETE);
}

Pattern Pattern::regex(std::string_view source, std::string_view where) {
  return Pattern(source, oniguruma_to_pcre2(source, where),
                 PCRE2_UCP | PCRE2_MULTILINE | PCRE2_NEVER_BACKSLASH_C, where);
}

Pattern Pattern::literal(std::string_view text, std::string_view where) {
  if (text.empty()) fail(ErrorKind::kConfig, where, ": pattern is empty, want the text to split at");
  return Pattern(text, text, PCRE2_LITERAL, where);
}

std::vector<PatternPart> Pattern::find_parts(std::string_view text) const {
  const std::unique_ptr<pcre2_match_data, MatchDataDeleter> match(
      pcre2_match_data_create_from_pattern(code_->pcre2, nullptr));
  if (!match) throw std::bad_alloc();
  const PCRE2_SIZE* found = pcre2_get_ovector_pointer(match.get());
  const auto search = [&](size_t from, uint32_t options) {
    return pcre2_match(code_->pcre2, reinterpret_cast<PCRE2_SPTR>(text.data()), text.size(), from,
                       options | PCRE2_NO_UTF_CHECK, match.get(), nullptr);
  };

  std::vector<PatternPart> parts;
  size_t covered = 0;        // end of the last part
  bool after_match = false;  // the last part is a match
  for (size_t from = 0; from <= text.size();) {
    int status = search(from, 0);
    // The JIT's stack is small and fixed; the interpreter's grows.
    if (status == PCRE2_ERROR_JIT_STACKLIMIT) status = search(from, PCRE2_NO_JIT);
    if (status == PCRE2_ERROR_NOMATCH) break;
    if (status < 0)
      fail(ErrorKind::kRequest, "text: pattern \"", source_, "\" failed at byte ", from, " of ", text.size(),
           ": ", message_of(status));
    const size_t begin = found[0], end = found[1];
    if (begin == end && after_match && end == covered) {
      // An empty match right after a match is no match; look on, one character further.
      if (from == text.size()) break;
      from += size_t(utf8_head(text.substr(from)).length);
      continue;
    }
    if (begin > covered) parts.push_back({covered, begin, false});
    parts.push_back({begin, end, true});
    covered = from = end;
    after_match = true;
  }
  if (covered < text.size()) parts.push_back({covered, text.size(), false});
  return parts;
}

}  // namespace nanovllm
