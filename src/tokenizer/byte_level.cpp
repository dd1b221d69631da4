#include "tokenizer/byte_level.h"

#include <array>

#include "base/unicode.h"

namespace nanovllm {
namespace {

constexpr int kNumSymbols = 256 + 68;  // code points below this may be symbols

struct Alphabet {
  std::array<std::string, 256> symbols;
  std::array<int, kNumSymbols> bytes;  // by code point, -1 = no symbol

  Alphabet() {
    bytes.fill(-1);
    char32_t next = 256;
    for (int byte = 0; byte < 256; ++byte) {
      const bool printable = (byte >= '!' && byte <= '~') || (byte >= 0xA1 && byte <= 0xAC) || byte >= 0xAE;
      const char32_t symbol = printable ? char32_t(byte) : next++;
      append_utf8(symbols[size_t(byte)], symbol);
      bytes[symbol] = byte;
    }
  }
};

const Alphabet& alphabet() {
  static const Alphabet table;
  return table;
}

}  // namespace

std::string_view byte_symbol(unsigned char byte) { return alphabet().symbols[byte]; }

std::string spell_bytes(std::string_view bytes) {
  std::string text;
  for (const char byte : bytes) text += byte_symbol(static_cast<unsigned char>(byte));
  return text;
}

void append_unspelled(std::string_view text, std::string& bytes) {
  const Alphabet& table = alphabet();
  const size_t begin = bytes.size();
  for (size_t i = 0; i < text.size();) {
    // One byte of ASCII, or two of up to U+07FF: no symbol is longer.
    const auto first = static_cast<unsigned char>(text[i++]);
    int code_point = first;
    if (first >= 0xC0 && first < 0xE0 && i < text.size())
      code_point = (first & 0x1F) << 6 | (static_cast<unsigned char>(text[i++]) & 0x3F);
    else if (first >= 0x80)
      code_point = kNumSymbols;
    if (code_point >= kNumSymbols || table.bytes[size_t(code_point)] < 0) {
      bytes.replace(begin, bytes.npos, text);
      return;
    }
    bytes += char(table.bytes[size_t(code_point)]);
  }
}

}  // namespace nanovllm
