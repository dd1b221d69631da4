// Any bytes as a tokenizer.json, and any bytes as a text: only Error may come out, and what is accepted gives
// the text back. The input is the file, or the file, a zero byte and a text.
// Seeds: build/fuzz/seeds/tokenizer
#include <cstddef>
#include <cstdint>
#include <string_view>

#include "base/assert.h"
#include "base/error.h"
#include "tokenizer/detokenizer.h"
#include "tokenizer/tokenizer.h"

namespace nanovllm {
namespace {

void try_tokenizer(std::string_view json, std::string_view text) {
  try {
    const Tokenizer tokenizer = Tokenizer::parse(json, "fuzz.json");
    for (const auto origin : {Origin::kTemplate, Origin::kMessage}) {
      const std::vector<TokenId> ids =
          tokenizer.encode_prompt(PromptText(std::string(text), origin), TemplateTokens::kAdd);
      std::string joined;
      Detokenizer detokenizer(tokenizer, SpecialText::kSkip);
      for (const TokenId id : ids) {
        ASSERT(id >= 0 && id < tokenizer.num_tokens());
        joined += detokenizer.push(id);
      }
      ASSERT(joined + detokenizer.finish() == tokenizer.decode(ids, SpecialText::kSkip));
    }
  } catch (const Error& error) {
    ASSERT(error.kind() == ErrorKind::kConfig || error.kind() == ErrorKind::kUnsupported ||
           error.kind() == ErrorKind::kRequest);
  }
}

}  // namespace
}  // namespace nanovllm

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const std::string_view input(reinterpret_cast<const char*>(data), size);
  const size_t cut = input.find('\0');
  const std::string_view text =
      cut == input.npos ? "Hello  w\u00f6rld, it's 123\n <|im_end|>e\u0301" : input.substr(cut + 1);
  nanovllm::try_tokenizer(input.substr(0, cut), text);
  return 0;
}
