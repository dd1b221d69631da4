// Normal forms, against utf8proc over the whole text at once.
#include "tokenizer/normalizer.h"

#include <utf8proc.h>

#include <memory>
#include <random>

#include "base/unicode.h"
#include "support.h"

namespace nanovllm {
namespace {

std::string whole(const std::string& text, NormalForm form) {
  utf8proc_uint8_t* out = nullptr;
  const int compatibility = form == NormalForm::kNfkc ? UTF8PROC_COMPAT : 0;
  const auto size =
      utf8proc_map(reinterpret_cast<const utf8proc_uint8_t*>(text.data()), utf8proc_ssize_t(text.size()),
                   &out, utf8proc_option_t(UTF8PROC_COMPOSE | UTF8PROC_STABLE | compatibility));
  const std::unique_ptr<utf8proc_uint8_t, decltype(&free)> owned(out, free);
  return size < 0 ? "error" : std::string(reinterpret_cast<char*>(out), size_t(size));
}

// Letters, marks of several classes, a mark that decomposes, Hangul in parts and whole, and what has another
// form in compatibility: everything that composes across a place where a text might be cut.
TEST(Normalizer, ATextIsNormalizedAsAWhole) {
  constexpr char32_t kAlphabet[] = {'a',    'e',    ' ',    'u',    0xE9,   0xFC,   0x2FF,  0x300,
                                    0x301,  0x308,  0x316,  0x323,  0x344,  0x345,  0x1100, 0x1161,
                                    0x11A8, 0xAC00, 0xAC01, 0x2126, 0x0958, 0x3099, 0x304B, 0x4F60,
                                    0xFB01, 0xFF21, 0x1E9B, 0x2460, 0x1D15E};
  std::mt19937 random(3);
  for (int round = 0; round < 20000; ++round) {
    std::string text;
    for (int left = int(random() % 12); left > 0; --left)
      append_utf8(text, kAlphabet[random() % std::size(kAlphabet)]);
    for (const NormalForm form : {NormalForm::kNfc, NormalForm::kNfkc})
      ASSERT_EQ(normalize(text, form), whole(text, form)) << round << " " << text;
  }
}

}  // namespace
}  // namespace nanovllm
