// UTF-8, as The Unicode Standard defines it (section 3.9, table 3-7): no overlong forms, no surrogates, at
// most U+10FFFF.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

namespace nanovllm {

// What stands at the front of a byte string.
struct Utf8Head {
  enum Kind {
    kCharacter,   // a whole character
    kIncomplete,  // a proper prefix of a character, cut by the end of the string
    kInvalid,     // bytes that no continuation can make a character
  };
  Kind kind;
  int length;  // bytes it takes: 1-4; of invalid ones the maximal part that is one U+FFFD (W3C, Unicode 3.9)
  char32_t code_point;  // of a character, else U+FFFD
};

// text must not be empty.
Utf8Head utf8_head(std::string_view text);

// The offset of the first byte that is not part of valid UTF-8, or npos if there is none.
size_t find_invalid_utf8(std::string_view text);

void append_utf8(std::string& out, char32_t code_point);

// The text with every invalid part replaced by one U+FFFD, as Python's bytes.decode("utf-8", "replace") does
// it.
std::string replace_invalid_utf8(std::string_view text);

}  // namespace nanovllm
