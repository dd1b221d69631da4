#include "base/unicode.h"

namespace nanovllm {
namespace {

constexpr char32_t kReplacement = 0xFFFD;

struct LeadByte {
  int length;            // bytes of the character, 0 = no character begins so
  unsigned char lo, hi;  // allowed range of the second byte
};

LeadByte lead_byte(unsigned char byte) {
  if (byte < 0x80) return {1, 0, 0};
  if (byte >= 0xC2 && byte <= 0xDF) return {2, 0x80, 0xBF};
  if (byte == 0xE0) return {3, 0xA0, 0xBF};
  if (byte == 0xED) return {3, 0x80, 0x9F};
  if (byte >= 0xE1 && byte <= 0xEF) return {3, 0x80, 0xBF};
  if (byte == 0xF0) return {4, 0x90, 0xBF};
  if (byte >= 0xF1 && byte <= 0xF3) return {4, 0x80, 0xBF};
  if (byte == 0xF4) return {4, 0x80, 0x8F};
  return {0, 0, 0};
}

}  // namespace

Utf8Head utf8_head(std::string_view text) {
  const auto byte = [&](int i) { return static_cast<unsigned char>(text[size_t(i)]); };
  const LeadByte lead = lead_byte(byte(0));
  if (lead.length == 0) return {Utf8Head::kInvalid, 1, kReplacement};
  if (lead.length == 1) return {Utf8Head::kCharacter, 1, byte(0)};
  char32_t code_point = byte(0) & (0xFFu >> (lead.length + 1));
  for (int i = 1; i < lead.length; ++i) {
    if (i == int(text.size())) return {Utf8Head::kIncomplete, i, kReplacement};
    const unsigned char lo = i == 1 ? lead.lo : 0x80, hi = i == 1 ? lead.hi : 0xBF;
    if (byte(i) < lo || byte(i) > hi) return {Utf8Head::kInvalid, i, kReplacement};
    code_point = code_point << 6 | (byte(i) & 0x3F);
  }
  return {Utf8Head::kCharacter, lead.length, code_point};
}

size_t find_invalid_utf8(std::string_view text) {
  for (size_t i = 0; i < text.size();) {
    const Utf8Head head = utf8_head(text.substr(i));
    if (head.kind != Utf8Head::kCharacter) return i;
    i += size_t(head.length);
  }
  return std::string_view::npos;
}

void append_utf8(std::string& out, char32_t c) {
  if (c < 0x80) {
    out += char(c);
  } else if (c < 0x800) {
    out += char(0xC0 | c >> 6);
    out += char(0x80 | (c & 0x3F));
  } else if (c < 0x10000) {
    out += char(0xE0 | c >> 12);
    out += char(0x80 | (c >> 6 & 0x3F));
    out += char(0x80 | (c & 0x3F));
  } else {
    out += char(0xF0 | c >> 18);
    out += char(0x80 | (c >> 12 & 0x3F));
    out += char(0x80 | (c >> 6 & 0x3F));
    out += char(0x80 | (c & 0x3F));
  }
}

std::string replace_invalid_utf8(std::string_view text) {
  std::string out;
  out.reserve(text.size());
  for (size_t i = 0; i < text.size();) {
    const Utf8Head head = utf8_head(text.substr(i));
    if (head.kind == Utf8Head::kCharacter)
      out.append(text, i, size_t(head.length));
    else
      append_utf8(out, kReplacement);
    i += size_t(head.length);
  }
  return out;
}

}  // namespace nanovllm
