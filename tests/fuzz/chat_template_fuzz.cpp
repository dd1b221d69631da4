// Any bytes as a chat template, rendered with fixed messages: only Error may come out, and the text that
// comes is within the limits. The bytes behind a NUL, if there is one, are the variables as JSON.
// Seeds: build/fuzz/seeds/chat_template
#include <cstddef>
#include <cstdint>

#include "base/assert.h"
#include "tokenizer/chat_template.h"

namespace nanovllm {
namespace {

constexpr const char* kVariables = R"({
  "messages": [{"role": "system", "content": "Be brief."},
               {"role": "user", "content": "caf\u00e9 \ue000\ud83d\ude00 <b>\n"},
               {"role": "assistant", "content": null, "tool_calls": [{"function": {"name": "f\ue000", "arguments": {"a\ue000": 1.0}}}]}],
  "tools": [{"type": "function", "function": {"name": "f", "parameters": {"type": "object", "items": [1, 2.5, true]}}}],
  "add_generation_prompt": true, "x": 123456789012345678901234567890, "s\ue000": "\u0130", "s": " a,\ue000b "})";

constexpr std::string_view kCanary = "\xEE\x80\x80";  // U+E000

// Whether a template may write U+E000 itself, as a character or as an escape.
bool spells_canary(std::string_view source) {
  return source.find(kCanary) != source.npos || source.find("000") != source.npos ||
         source.find("\\x") != source.npos;
}

}  // namespace
}  // namespace nanovllm

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace nanovllm;
  static const jinja::Value variables = jinja::parse_json(kVariables);
  const std::string_view bytes(reinterpret_cast<const char*>(data), size);
  const size_t nul = bytes.find('\0');
  // The variables above hold U+E000 and such a template does not, so wherever it comes out a message wrote it.
  const bool has_canary = bytes.find('\0') == bytes.npos && !spells_canary(bytes);
  try {
    const ChatTemplate parsed(bytes.substr(0, nul), "fuzz");
    const PromptText text =
        parsed.render(nul == bytes.npos ? variables : jinja::parse_json(bytes.substr(nul + 1)), 0);
    for (size_t at = 0; has_canary && (at = text.str().find(kCanary, at)) != std::string::npos; ++at)
      ASSERT(text.origin_at(at) == Origin::kMessage);
  } catch (const Error& error) {
    ASSERT(error.kind() == ErrorKind::kConfig || error.kind() == ErrorKind::kRequest);
  }
  return 0;
}
