// Any bytes as a chat template, rendered with fixed messages: only Error may come out, and the text that
// comes is within the limits. The bytes behind a NUL, if there is one, are the variables as JSON.
// Seeds: build/fuzz/seeds/chat_template
#include <cstddef>
#include <cstdint>

#include "tokenizer/chat_template.h"

namespace nanovllm {
namespace {

constexpr const char* kVariables = R"({
  "messages": [{"role": "system", "content": "Be brief."},
               {"role": "user", "content": "caf\u00e9 \ud83d\ude00 <b>\n"},
               {"role": "assistant", "content": null, "tool_calls": [{"function": {"name": "f", "arguments": {"a": 1.0}}}]}],
  "tools": [{"type": "function", "function": {"name": "f", "parameters": {"type": "object", "items": [1, 2.5, true]}}}],
  "add_generation_prompt": true, "x": 123456789012345678901234567890, "s": " a,b "})";

}  // namespace
}  // namespace nanovllm

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace nanovllm;
  static const jinja::Value variables = jinja::parse_json(kVariables);
  const std::string_view bytes(reinterpret_cast<const char*>(data), size);
  const size_t nul = bytes.find('\0');
  try {
    const ChatTemplate parsed(bytes.substr(0, nul), "fuzz");
    parsed.render(nul == bytes.npos ? variables : jinja::parse_json(bytes.substr(nul + 1)), 0);
  } catch (const Error& error) {
    ASSERT(error.kind() == ErrorKind::kConfig || error.kind() == ErrorKind::kRequest);
  }
  return 0;
}
