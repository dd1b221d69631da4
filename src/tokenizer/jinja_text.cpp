#include "tokenizer/jinja_text.h"

#include <utf8proc.h>

#include "base/unicode.h"

namespace nanovllm::jinja {
namespace {

utf8proc_category_t category(char32_t c) { return utf8proc_category(utf8proc_int32_t(c)); }

// Calls f(code point, its bytes) for each character.
template <class F>
void for_each_character(std::string_view text, F&& f) {
  while (!text.empty()) {
    const Utf8Head head = utf8_head(text);
    f(head.code_point, text.substr(0, size_t(head.length)));
    text.remove_prefix(size_t(head.length));
  }
}

// Unicode's SpecialCasing.txt: characters whose upper case is longer than one character (Greek letters with
// iota subscript, U+1F80 to U+1FAF, follow a rule and are not listed).
struct LongCase {
  char32_t character;
  std::u32string_view upper, title;
};
constexpr LongCase kLongCases[] = {{0x00DF, U"SS", U"Ss"},
                                   {0x0149, U"\u02bcN", U"\u02bcN"},
                                   {0x01F0, U"J\u030c", U"J\u030c"},
                                   {0x0390, U"\u0399\u0308\u0301", U"\u0399\u0308\u0301"},
                                   {0x03B0, U"\u03a5\u0308\u0301", U"\u03a5\u0308\u0301"},
                                   {0x0587, U"\u0535\u0552", U"\u0535\u0582"},
                                   {0x1E96, U"H\u0331", U"H\u0331"},
                                   {0x1E97, U"T\u0308", U"T\u0308"},
                                   {0x1E98, U"W\u030a", U"W\u030a"},
                                   {0x1E99, U"Y\u030a", U"Y\u030a"},
                                   {0x1E9A, U"A\u02be", U"A\u02be"},
                                   {0x1F50, U"\u03a5\u0313", U"\u03a5\u0313"},
                                   {0x1F52, U"\u03a5\u0313\u0300", U"\u03a5\u0313\u0300"},
                                   {0x1F54, U"\u03a5\u0313\u0301", U"\u03a5\u0313\u0301"},
                                   {0x1F56, U"\u03a5\u0313\u0342", U"\u03a5\u0313\u0342"},
                                   {0x1FB2, U"\u1fba\u0399", U"\u1fba\u0345"},
                                   {0x1FB3, U"\u0391\u0399", U"\u1fbc"},
                                   {0x1FB4, U"\u0386\u0399", U"\u0386\u0345"},
                                   {0x1FB6, U"\u0391\u0342", U"\u0391\u0342"},
                                   {0x1FB7, U"\u0391\u0342\u0399", U"\u0391\u0342\u0345"},
                                   {0x1FBC, U"\u0391\u0399", U"\u1fbc"},
                                   {0x1FC2, U"\u1fca\u0399", U"\u1fca\u0345"},
                                   {0x1FC3, U"\u0397\u0399", U"\u1fcc"},
                                   {0x1FC4, U"\u0389\u0399", U"\u0389\u0345"},
                                   {0x1FC6, U"\u0397\u0342", U"\u0397\u0342"},
                                   {0x1FC7, U"\u0397\u0342\u0399", U"\u0397\u0342\u0345"},
                                   {0x1FCC, U"\u0397\u0399", U"\u1fcc"},
                                   {0x1FD2, U"\u0399\u0308\u0300", U"\u0399\u0308\u0300"},
                                   {0x1FD3, U"\u0399\u0308\u0301", U"\u0399\u0308\u0301"},
                                   {0x1FD6, U"\u0399\u0342", U"\u0399\u0342"},
                                   {0x1FD7, U"\u0399\u0308\u0342", U"\u0399\u0308\u0342"},
                                   {0x1FE2, U"\u03a5\u0308\u0300", U"\u03a5\u0308\u0300"},
                                   {0x1FE3, U"\u03a5\u0308\u0301", U"\u03a5\u0308\u0301"},
                                   {0x1FE4, U"\u03a1\u0313", U"\u03a1\u0313"},
                                   {0x1FE6, U"\u03a5\u0342", U"\u03a5\u0342"},
                                   {0x1FE7, U"\u03a5\u0308\u0342", U"\u03a5\u0308\u0342"},
                                   {0x1FF2, U"\u1ffa\u0399", U"\u1ffa\u0345"},
                                   {0x1FF3, U"\u03a9\u0399", U"\u1ffc"},
                                   {0x1FF4, U"\u038f\u0399", U"\u038f\u0345"},
                                   {0x1FF6, U"\u03a9\u0342", U"\u03a9\u0342"},
                                   {0x1FF7, U"\u03a9\u0342\u0399", U"\u03a9\u0342\u0345"},
                                   {0x1FFC, U"\u03a9\u0399", U"\u1ffc"},
                                   {0xFB00, U"FF", U"Ff"},
                                   {0xFB01, U"FI", U"Fi"},
                                   {0xFB02, U"FL", U"Fl"},
                                   {0xFB03, U"FFI", U"Ffi"},
                                   {0xFB04, U"FFL", U"Ffl"},
                                   {0xFB05, U"ST", U"St"},
                                   {0xFB06, U"ST", U"St"},
                                   {0xFB13, U"\u0544\u0546", U"\u0544\u0576"},
                                   {0xFB14, U"\u0544\u0535", U"\u0544\u0565"},
                                   {0xFB15, U"\u0544\u053b", U"\u0544\u056b"},
                                   {0xFB16, U"\u054e\u0546", U"\u054e\u0576"},
                                   {0xFB17, U"\u0544\u053d", U"\u0544\u056d"}};

const LongCase* find_long_case(char32_t c) {
  if (c < 0xDF) return nullptr;
  for (const LongCase& entry : kLongCases)
    if (entry.character == c) return &entry;
  return nullptr;
}

bool has_iota_subscript(char32_t c) { return c >= 0x1F80 && c <= 0x1FAF; }

void append_upper(std::string& out, char32_t c) {
  if (has_iota_subscript(c)) {
    append_utf8(out, (c < 0x1F90 ? 0x1F08 : c < 0x1FA0 ? 0x1F28 : 0x1F68) + (c & 7));
    append_utf8(out, 0x0399);
  } else if (const LongCase* entry = find_long_case(c)) {
    for (char32_t upper : entry->upper) append_utf8(out, upper);
  } else {
    append_utf8(out, char32_t(utf8proc_toupper(utf8proc_int32_t(c))));
  }
}

void append_title(std::string& out, char32_t c) {
  if (has_iota_subscript(c))
    append_utf8(out, c | 8);
  else if (const LongCase* entry = find_long_case(c))
    for (char32_t title : entry->title) append_utf8(out, title);
  else
    append_utf8(out, char32_t(utf8proc_totitle(utf8proc_int32_t(c))));
}

bool is_cased(char32_t c) {
  const utf8proc_category_t kind = category(c);
  return kind == UTF8PROC_CATEGORY_LU || kind == UTF8PROC_CATEGORY_LL || kind == UTF8PROC_CATEGORY_LT;
}

// What a sigma looks through for the end of its word.
bool is_case_ignorable(char32_t c) {
  const utf8proc_category_t kind = category(c);
  return kind == UTF8PROC_CATEGORY_MN || kind == UTF8PROC_CATEGORY_ME || kind == UTF8PROC_CATEGORY_CF ||
         kind == UTF8PROC_CATEGORY_LM || kind == UTF8PROC_CATEGORY_SK || c == '\'' || c == '.' || c == ':' ||
         c == 0xB7 || c == 0x2019;
}

bool letter_follows(std::string_view rest) {
  while (!rest.empty()) {
    const Utf8Head head = utf8_head(rest);
    if (!is_case_ignorable(head.code_point)) return is_cased(head.code_point);
    rest.remove_prefix(size_t(head.length));
  }
  return false;
}

constexpr char32_t kSigma = 0x3A3, kSmallSigma = 0x3C3, kFinalSigma = 0x3C2, kCapitalIWithDot = 0x130;

// Writes text in lower case; `after_letter` says whether a letter stands before it.
void append_lower(std::string& out, std::string_view text, bool after_letter) {
  size_t at = 0;
  for_each_character(text, [&](char32_t c, std::string_view bytes) {
    at += bytes.size();
    if (c == kSigma)
      append_utf8(out, after_letter && !letter_follows(text.substr(at)) ? kFinalSigma : kSmallSigma);
    else if (c == kCapitalIWithDot)
      out += "i\u0307";
    else if (c == 0xFFFD)
      out += bytes;
    else
      append_utf8(out, char32_t(utf8proc_tolower(utf8proc_int32_t(c))));
    if (!is_case_ignorable(c)) after_letter = is_cased(c);
  });
}

}  // namespace

size_t count_characters(std::string_view text) {
  size_t count = 0;
  for_each_character(text, [&](char32_t, std::string_view) { ++count; });
  return count;
}

std::vector<std::string_view> characters(std::string_view text) {
  std::vector<std::string_view> all;
  all.reserve(text.size());
  for_each_character(text, [&](char32_t, std::string_view bytes) { all.push_back(bytes); });
  return all;
}

bool is_space(char32_t c) {
  return (c >= 9 && c <= 13) || (c >= 28 && c <= 32) || c == 0x85 || c == 0xA0 || c == 0x1680 ||
         (c >= 0x2000 && c <= 0x200A) || c == 0x2028 || c == 0x2029 || c == 0x202F || c == 0x205F ||
         c == 0x3000;
}

bool is_letter(char32_t c) {
  const utf8proc_category_t kind = category(c);
  return is_cased(c) || kind == UTF8PROC_CATEGORY_LM || kind == UTF8PROC_CATEGORY_LO;
}

bool is_number_character(char32_t c) {
  const utf8proc_category_t kind = category(c);
  return kind == UTF8PROC_CATEGORY_ND || kind == UTF8PROC_CATEGORY_NL || kind == UTF8PROC_CATEGORY_NO;
}

bool is_printable(char32_t c) {
  if (c == ' ') return true;
  switch (category(c)) {
    case UTF8PROC_CATEGORY_CN:
    case UTF8PROC_CATEGORY_CC:
    case UTF8PROC_CATEGORY_CF:
    case UTF8PROC_CATEGORY_CS:
    case UTF8PROC_CATEGORY_CO:
    case UTF8PROC_CATEGORY_ZS:
    case UTF8PROC_CATEGORY_ZL:
    case UTF8PROC_CATEGORY_ZP:
      return false;
    default:
      return true;
  }
}

bool is_blank(std::string_view text) { return strip(text).empty(); }

std::string_view strip(std::string_view text, Ends ends, std::optional<std::string_view> any_of) {
  const auto goes = [&](std::string_view character, char32_t c) {
    return any_of ? any_of->find(character) != any_of->npos : is_space(c);
  };
  if (ends != Ends::kRight) {
    while (!text.empty()) {
      const Utf8Head head = utf8_head(text);
      if (!goes(text.substr(0, size_t(head.length)), head.code_point)) break;
      text.remove_prefix(size_t(head.length));
    }
  }
  if (ends != Ends::kLeft) {
    while (!text.empty()) {
      size_t begin = text.size() - 1;  // of the last character: at most 3 continuation bytes back
      while (begin > 0 && text.size() - begin < 4 && (text[begin] & 0xC0) == 0x80) --begin;
      const std::string_view last = text.substr(begin);
      if (!goes(last, utf8_head(last).code_point)) break;
      text.remove_suffix(last.size());
    }
  }
  return text;
}

std::string to_upper(std::string_view text) {
  std::string out;
  for_each_character(text, [&](char32_t c, std::string_view bytes) {
    if (c == 0xFFFD)
      out += bytes;
    else
      append_upper(out, c);
  });
  return out;
}

std::string to_lower(std::string_view text) {
  std::string out;
  append_lower(out, text, false);
  return out;
}

std::string to_title_character(std::string_view character) {
  std::string out;
  if (!character.empty()) append_title(out, utf8_head(character).code_point);
  return out;
}

std::string capitalize(std::string_view text) {
  if (text.empty()) return {};
  const size_t first = size_t(utf8_head(text).length);
  std::string out = to_title_character(text.substr(0, first));
  append_lower(out, text.substr(first), is_cased(utf8_head(text).code_point));
  return out;
}

std::string title_words(std::string_view text) {
  std::string out;
  bool in_word = false;
  size_t at = 0;
  for_each_character(text, [&](char32_t c, std::string_view bytes) {
    at += bytes.size();
    if (in_word && c == kSigma)
      append_utf8(out, letter_follows(text.substr(at)) ? kSmallSigma : kFinalSigma);
    else if (in_word)
      append_lower(out, bytes, true);
    else
      append_title(out, c);
    in_word = is_cased(c);
  });
  return out;
}

PromptText escape_html(const PromptText& text) {
  PromptText out;
  std::string_view rest = text.str();
  while (!rest.empty()) {
    const size_t plain = std::min(rest.find_first_of("&<>\"'"), rest.size());
    out.append_part(text, rest.substr(0, plain));
    rest.remove_prefix(plain);
    if (rest.empty()) break;
    const char c = rest[0];
    out.append(c == '&'   ? "&amp;"
               : c == '<' ? "&lt;"
               : c == '>' ? "&gt;"
               : c == '"' ? "&#34;"
                          : "&#39;",
               text.origin_at(text.size() - rest.size()));
    rest.remove_prefix(1);
  }
  return out;
}

}  // namespace nanovllm::jinja
