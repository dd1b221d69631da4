// Added tokens: texts that become one id before normalisation and BPE see them ("<|im_end|>"), found as
// Hugging Face does (tokenizers, tokenizer/added_vocabulary.rs): leftmost first, the longest of those that
// begin at one place.
#pragma once

#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/token.h"
#include "tokenizer/prompt_text.h"

namespace nanovllm {

struct AddedToken {
  TokenId id = -1;
  std::string content;
  bool special = false;      // control token: skipped when text is shown
  bool single_word = false;  // only where no word character touches it
  bool lstrip = false;       // takes the white space before it
  bool rstrip = false;       // and after it
  bool normalized = false;   // looked for in the normalised text
};

// A stretch of text: an added token, or text between two (id -1).
struct TextPart {
  std::string_view text;
  TokenId id = -1;
};

// A set of added tokens, found together. Safe to share between threads.
class AddedTokenFinder {
 public:
  explicit AddedTokenFinder(std::vector<AddedToken> tokens);

  // The whole text in order. text is valid UTF-8. In a message's bytes no token is found, nor one that reaches
  // into them, so that a user cannot forge a turn: neither special tokens nor others that a template writes
  // ("<tool_response>", "<think>"). Only tokens of white space are, which are vocabulary and nothing else.
  std::vector<TextPart> split(std::string_view text, std::span<const ByteRange> message_ranges = {}) const;

  bool empty() const { return tokens_.empty(); }

 private:
  const AddedToken* longest_at(std::string_view text, size_t trusted) const;

  std::vector<AddedToken> tokens_;  // by content
  std::vector<bool> is_blank_;      // of tokens_
  bool starts_[256] = {};           // first bytes of the tokens
};

}  // namespace nanovllm
