#include "tokenizer/normalizer.h"

#include <utf8proc.h>

#include <algorithm>
#include <vector>

#include "base/error.h"
#include "base/unicode.h"

namespace nanovllm {
namespace {

// Below U+0300 no character composes with a neighbour and each is its own NFC; below U+0080 its own NFKC.
bool is_normal_already(std::string_view text, NormalForm form) {
  const unsigned char limit = form == NormalForm::kNfc ? 0xCC : 0x80;
  return std::all_of(text.begin(), text.end(), [&](char c) {
    const auto byte = static_cast<unsigned char>(c);
    return byte < limit || (limit > 0x80 && (byte & 0xC0) == 0x80);
  });
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

}  // namespace

std::string normalize(std::string_view text, NormalForm form) {
  if (is_normal_already(text, form)) return std::string(text);
  constexpr int kMaxDecomposed = 32;  // characters; Unicode's longest is 18
  const int compatibility = form == NormalForm::kNfkc ? UTF8PROC_COMPAT : 0;
  std::vector<utf8proc_int32_t> decomposed;
  decomposed.reserve(text.size());
  for (size_t i = 0; i < text.size();) {
    const Utf8Head head = utf8_head(text.substr(i));
    utf8proc_int32_t parts[kMaxDecomposed];
    const auto count =
        utf8proc_decompose_char(utf8proc_int32_t(head.code_point), parts, kMaxDecomposed,
                                utf8proc_option_t(UTF8PROC_DECOMPOSE | compatibility), nullptr);
    ASSERT(count > 0 && count <= kMaxDecomposed);
    decomposed.insert(decomposed.end(), parts, parts + count);
    i += size_t(head.length);
  }
  sort_marks(decomposed);
  const auto length = utf8proc_normalize_utf32(decomposed.data(), utf8proc_ssize_t(decomposed.size()),
                                               utf8proc_option_t(UTF8PROC_COMPOSE | UTF8PROC_STABLE));
  ASSERT(length >= 0);
  std::string out;
  out.reserve(text.size());
  for (utf8proc_ssize_t i = 0; i < length; ++i) append_utf8(out, char32_t(decomposed[size_t(i)]));
  return out;
}

}  // namespace nanovllm
