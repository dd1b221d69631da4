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

std::string unspell_bytes(std::string_view text) {
  const Alphabet& table = alphabet();
  std::string bytes;
  for (size_t i = 0; i < text.size();) {
    const Utf8Head head = utf8_head(text.substr(i));
    if (head.code_point >= kNumSymbols || table.bytes[head.code_point] < 0) return std::string(text);
    bytes += char(table.bytes[head.code_point]);
    i += size_t(head.length);
  }
  return bytes;
}

}  // namespace nanovllm
