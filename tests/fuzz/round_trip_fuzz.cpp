// Any bytes as a text for the demo model's tokenizer, and as token ids: what is encoded decodes to the text, what
// a message wrote has no added token, and a stream joins to the whole. Runs in the root of the repository.
// Seeds: docs README.md models/demo/reference.json
#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <string>

#include "base/assert.h"
#include "base/error.h"
#include "base/unicode.h"
#include "tokenizer/detokenizer.h"
#include "tokenizer/normalizer.h"
#include "tokenizer/tokenizer.h"

namespace nanovllm {
namespace {

const Tokenizer& tokenizer() {
  static const Tokenizer loaded = Tokenizer::load("models/demo");
  return loaded;
}

void check_stream(const std::vector<TokenId>& ids) {
  for (const SpecialText special : {SpecialText::kSkip, SpecialText::kKeep}) {
    Detokenizer detokenizer(tokenizer(), special);
    std::string joined;
    for (const TokenId id : ids) joined += detokenizer.push(id);
    joined += detokenizer.finish();
    ASSERT(joined == tokenizer().decode(ids, special));
    ASSERT(find_invalid_utf8(joined) == std::string::npos);
  }
}

void check_text(const std::string& text) {
  if (find_invalid_utf8(text) != std::string::npos) {
    try {
      tokenizer().encode(text);
      ASSERT(false);
    } catch (const Error& error) {
      ASSERT(error.kind() == ErrorKind::kRequest);
    }
    return;
  }
  const std::string normal = normalize(text, NormalForm::kNfc);
  ASSERT(normalize(normal, NormalForm::kNfc) == normal);
  const std::vector<TokenId> ids =
      tokenizer().encode(text);  // pieces between added tokens are normalised apart
  ASSERT(normalize(tokenizer().decode(ids, SpecialText::kKeep), NormalForm::kNfc) == normal);
  check_stream(ids);
  const std::vector<TokenId> plain = tokenizer().encode_prompt(PromptText(text, Origin::kMessage));
  ASSERT(tokenizer().decode(plain, SpecialText::kSkip) == normal);  // so none of them is special
  check_stream(plain);
}

}  // namespace
}  // namespace nanovllm

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace nanovllm;
  size = std::min<size_t>(size, 1024);  // longer ones only cost time
  check_text(std::string(reinterpret_cast<const char*>(data), size));
  std::vector<TokenId> ids(size / 2);  // ids of 16 bits: known ones and unknown
  for (size_t i = 0; i < ids.size(); ++i) ids[i] = data[2 * i] | data[2 * i + 1] << 8;
  check_stream(ids);
  return 0;
}
