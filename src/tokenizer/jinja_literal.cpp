#include "tokenizer/jinja_literal.h"

#include <cstdlib>

#include "base/unicode.h"
#include "tokenizer/jinja_number.h"
#include "tokenizer/jinja_text.h"

namespace nanovllm::jinja {
namespace {

int digit_value(char c) {
  if (c >= '0' && c <= '9') return c - '0';
  if (c >= 'a' && c <= 'z') return c - 'a' + 10;
  if (c >= 'A' && c <= 'Z') return c - 'A' + 10;
  return 99;
}

// Digits of this base from `at`, single underscores between them allowed; returns where they end.
size_t digits_end(std::string_view text, size_t at, int base) {
  while (at < text.size()) {
    const size_t digit = text[at] == '_' ? at + 1 : at;
    if (digit >= text.size() || digit_value(text[digit]) >= base) break;
    at = digit + 1;
  }
  return at;
}

std::string without_underscores(std::string_view text) {
  std::string out;
  for (char c : text)
    if (c != '_') out += c;
  return out;
}

Value integer_of_base(std::string_view digits, int base) {
  Wide value = 0;
  for (char c : without_underscores(digits)) {
    if (value >> 120 != 0)
      refuse("an integer of ", digits.size(), " digits to base ", base, ", want at most 120 bits");
    value = value * base + digit_value(c);
  }
  return from_wide(value);
}

// Code points of an escape are written as they are but for surrogates, which UTF-8 cannot hold.
void append_code_point(std::string& out, char32_t c) {
  append_utf8(out, c >= 0xD800 && c <= 0xDFFF ? 0xFFFD : c);
}

}  // namespace

size_t name_length(std::string_view text) {
  size_t at = 0;
  while (at < text.size()) {
    const Utf8Head head = utf8_head(text.substr(at));
    const char32_t c = head.code_point;
    const bool digit = at > 0 && is_number_character(c);
    if (head.kind != Utf8Head::kCharacter || !(c == '_' || is_letter(c) || digit)) break;
    at += size_t(head.length);
  }
  return at;
}

NumberLiteral read_number(std::string_view text, bool after_dot) {
  if (text[0] == '0' && text.size() > 2) {
    const char mark = text[1] | 0x20;
    const int base = mark == 'x' ? 16 : mark == 'o' ? 8 : mark == 'b' ? 2 : 0;
    if (base != 0) {
      const size_t end = digits_end(text, 2, base);
      if (end > 2) return {integer_of_base(text.substr(2, end - 2), base), end};
    }
  }
  const size_t whole = digits_end(text, 0, 10);
  size_t end = whole;
  if (!after_dot) {
    if (end + 1 < text.size() && text[end] == '.' && digit_value(text[end + 1]) < 10)
      end = digits_end(text, end + 1, 10);
    if (end < text.size() && (text[end] | 0x20) == 'e') {
      size_t digits = end + 1;
      if (digits < text.size() && (text[digits] == '+' || text[digits] == '-')) ++digits;
      if (digits < text.size() && digit_value(text[digits]) < 10) end = digits_end(text, digits, 10);
    }
  }
  const std::string number = without_underscores(text.substr(0, end));
  if (end > whole) return {Value::real(std::strtod(number.c_str(), nullptr)), end};
  return {integer_from_decimal(number), end};
}

std::string resolve_escapes(const Source& source, size_t offset, std::string_view text) {
  constexpr std::string_view kLetters = "abfnrtv\\'\"", kMeanings = "\a\b\f\n\r\t\v\\'\"";
  std::string out;
  out.reserve(text.size());
  for (size_t i = 0; i < text.size(); ++i) {
    if (text[i] != '\\' || i + 1 == text.size()) {
      out += text[i];
      continue;
    }
    const char letter = text[++i];
    if (const size_t known = kLetters.find(letter); known != kLetters.npos) {
      out += kMeanings[known];
    } else if (letter == '\n') {
      continue;  // a line carried on
    } else if (letter >= '0' && letter <= '7') {
      char32_t c = 0;
      size_t end = i;
      while (end < text.size() && end < i + 3 && text[end] >= '0' && text[end] <= '7')
        c = c * 8 + char32_t(text[end++] - '0');
      append_code_point(out, c);
      i = end - 1;
    } else if (letter == 'x' || letter == 'u' || letter == 'U') {
      const size_t length = letter == 'x' ? 2 : letter == 'u' ? 4 : 8;
      char32_t c = 0;
      for (size_t k = 1; k <= length; ++k) {
        const int digit = i + k < text.size() ? digit_value(text[i + k]) : 99;
        if (digit >= 16)
          source.fail_at(offset, "\\", letter, " in a string, want ", length, " hex digits after it");
        c = c * 16 + char32_t(digit);
      }
      if (c > 0x10FFFF) source.fail_at(offset, "\\U in a string is beyond Unicode, want at most 0010ffff");
      append_code_point(out, c);
      i += length;
    } else {
      out += '\\';
      out += letter;
    }
  }
  return out;
}

}  // namespace nanovllm::jinja
