// Text to token ids and back, as a model's tokenizer.json defines it: byte-level BPE with added tokens.
//
//   encode   cut out added tokens → normalise the rest → cut it into words → BPE of each word
//   decode   join the bytes of the tokens → UTF-8, invalid bytes as U+FFFD
//
// Equal, id for id, to Hugging Face's tokenizers on what it loads; what it cannot do exactly, it refuses to
// load.
#pragma once

#include <filesystem>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/token.h"
#include "tokenizer/added_tokens.h"
#include "tokenizer/prompt_text.h"

namespace nanovllm {

// Whether the text of special tokens shows in what is decoded.
enum class SpecialText { kSkip, kKeep };

// Immutable after load: all methods are safe to share between threads.
class Tokenizer {
 public:
  // Reads tokenizer.json and, where there is one, tokenizer_config.json (bos_token, eos_token).
  // throws Error(kDevice): no such file; Error(kConfig): damaged; Error(kUnsupported): of another kind
  static Tokenizer load(const std::filesystem::path& model_folder);
  // The text of a tokenizer.json. name stands for the file in errors.
  static Tokenizer parse(std::string_view tokenizer_json, std::string_view name);

  Tokenizer(Tokenizer&&) noexcept;
  Tokenizer& operator=(Tokenizer&&) noexcept;
  ~Tokenizer();

  // throws Error(kRequest): text is not UTF-8 (the byte is named), longer than 1 GiB, or too hard for the
  // pattern
  std::vector<TokenId> encode(std::string_view text,
                              TemplateTokens template_tokens = TemplateTokens::kOmit) const;
  // The same, but what a message wrote stays plain text (AddedTokenFinder::split).
  std::vector<TokenId> encode_prompt(const PromptText& text,
                                     TemplateTokens template_tokens = TemplateTokens::kOmit) const;
  // Unknown ids are "". Joins bytes, not texts: a character may be spread over tokens.
  std::string decode(std::span<const TokenId> ids, SpecialText special_text) const;

  std::string_view token_bytes(TokenId id) const;  // the raw bytes a token stands for; "" for unknown ids
  bool is_special(TokenId id) const;
  int num_tokens() const;  // largest id + 1
  std::optional<TokenId> find(
      std::string_view token_text) const;  // as spelled in the file: "<|im_end|>", "Ġthe"

  std::optional<TokenId> eos_token_id() const;
  const std::string& bos_token() const;  // the texts that a chat template may use; "" = none
  const std::string& eos_token() const;

 private:
  struct State;
  explicit Tokenizer(std::unique_ptr<State> state);
  std::vector<TokenId> encode(std::string_view text, std::span<const ByteRange> message_ranges,
                              TemplateTokens template_tokens) const;

  std::unique_ptr<const State> state_;
};

}  // namespace nanovllm
