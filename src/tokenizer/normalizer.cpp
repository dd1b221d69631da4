#include "tokenizer/normalizer.h"

#include <utf8proc.h>

#include <algorithm>
#include <iterator>
#include <vector>

#include "base/assert.h"
#include "base/error.h"
#include "base/unicode.h"

namespace nanovllm {
namespace {

struct Range {
  char32_t first, last;
};

// What came after Unicode 9.0 and has a combining class, a decomposition or a part in one, up to Unicode 18.
constexpr Range kAfterUnicode9[] = {
    {0x558, 0x558},     {0x58B, 0x58C},     {0x5C8, 0x5C9},     {0x7FD, 0x7FD},     {0x897, 0x89F},
    {0x8CA, 0x8D3},     {0x9FE, 0x9FE},     {0xC3C, 0xC3C},     {0xD3B, 0xD3C},     {0xEBA, 0xEBA},
    {0x1715, 0x1715},   {0x1ABF, 0x1AF0},   {0x1DF6, 0x1DFA},   {0x209D, 0x209F},   {0x32FF, 0x32FF},
    {0xA7F1, 0xA7F4},   {0xA82C, 0xA82C},   {0xAB69, 0xAB69},   {0x105C9, 0x105E4}, {0x10781, 0x107BF},
    {0x10D24, 0x10D6D}, {0x10EAB, 0x10F85}, {0x11070, 0x11070}, {0x1133B, 0x1133B}, {0x11382, 0x113D0},
    {0x1145E, 0x1145E}, {0x11839, 0x1183A}, {0x11930, 0x11A99}, {0x11D42, 0x11F42}, {0x1611E, 0x1612F},
    {0x16D63, 0x16D6A}, {0x16FF0, 0x16FF1}, {0x1B123, 0x1B126}, {0x1CCD6, 0x1CCF9}, {0x1D127, 0x1D128},
    {0x1D250, 0x1D281}, {0x1D6A6, 0x1D6A6}, {0x1DF95, 0x1DFFF}, {0x1E030, 0x1E6F5}, {0x1F16C, 0x1F16C},
    {0x1FBF0, 0x1FBF9},
};

bool is_after_unicode_9(char32_t c) {
  const Range* range = std::lower_bound(std::begin(kAfterUnicode9), std::end(kAfterUnicode9), c,
                                        [](const Range& r, char32_t value) { return r.last < value; });
  return range != std::end(kAfterUnicode9) && range->first <= c;
}

// Below U+0300 each character is its own NFC, below U+0080 its own NFKC, and composes with none before it. byte:
// the first of a character.
bool is_plain(char byte, NormalForm form) {
  return static_cast<unsigned char>(byte) < (form == NormalForm::kNfc ? 0xCC : 0x80);
}

bool begins_character(char byte) { return (byte & 0xC0) != 0x80; }

size_t last_character_size(std::string_view text) {
  size_t size = 1;
  while (!begins_character(text[text.size() - size])) ++size;
  return size;
}

int combining_class(utf8proc_int32_t code_point) {
  return utf8proc_get_property(code_point)->combining_class;
}

void sort_marks(std::vector<utf8proc_int32_t>& text) {
  for (auto i = text.begin(); i != text.end();) {
    const auto end = std::find_if(i, text.end(), [](auto c) { return combining_class(c) == 0; });
    std::stable_sort(i, end, [](auto a, auto b) { return combining_class(a) < combining_class(b); });
    i = end == text.end() ? end : end + 1;
  }
}

// Appends a decomposed stretch of text, in order and composed, and empties it.
void flush(std::vector<utf8proc_int32_t>& decomposed, std::string& out) {
  sort_marks(decomposed);
  const auto length = utf8proc_normalize_utf32(decomposed.data(), utf8proc_ssize_t(decomposed.size()),
                                               utf8proc_option_t(UTF8PROC_COMPOSE | UTF8PROC_STABLE));
  ASSERT(length >= 0);
  for (utf8proc_ssize_t i = 0; i < length; ++i) append_utf8(out, char32_t(decomposed[size_t(i)]));
  decomposed.clear();
}

void normalize_stretch(std::string_view text, NormalForm form, std::string& out) {
  constexpr int kMaxDecomposed = 32;  // characters; Unicode's longest is 18
  const int compatibility = form == NormalForm::kNfkc ? UTF8PROC_COMPAT : 0;
  std::vector<utf8proc_int32_t> decomposed;
  decomposed.reserve(text.size());
  for (size_t i = 0; i < text.size();) {
    const Utf8Head head = utf8_head(text.substr(i));
    i += size_t(head.length);
    if (is_after_unicode_9(head.code_point)) {
      flush(decomposed, out);
      append_utf8(out, head.code_point);
      continue;
    }
    utf8proc_int32_t parts[kMaxDecomposed];
    const auto count =
        utf8proc_decompose_char(utf8proc_int32_t(head.code_point), parts, kMaxDecomposed,
                                utf8proc_option_t(UTF8PROC_DECOMPOSE | compatibility), nullptr);
    ASSERT(count > 0 && count <= kMaxDecomposed);
    decomposed.insert(decomposed.end(), parts, parts + count);
  }
  flush(decomposed, out);
}

}  // namespace

std::string normalize(std::string_view text, NormalForm form) {
  std::string out;
  out.reserve(text.size());
  for (size_t done = 0; done < text.size();) {
    const auto is_other = [&](char byte) { return begins_character(byte) && !is_plain(byte, form); };
    const auto is_plain_head = [&](char byte) { return begins_character(byte) && is_plain(byte, form); };
    const auto other = std::find_if(text.begin() + std::ptrdiff_t(done), text.end(), is_other);
    const auto next_plain = std::find_if(other, text.end(), is_plain_head);
    // The last plain character belongs to the stretch: what follows may compose with it.
    size_t begin = size_t(other - text.begin());
    if (begin < text.size() && begin > done) begin -= last_character_size(text.substr(done, begin - done));
    out += text.substr(done, begin - done);
    done = size_t(next_plain - text.begin());
    normalize_stretch(text.substr(begin, done - begin), form, out);
  }
  return out;
}

}  // namespace nanovllm
