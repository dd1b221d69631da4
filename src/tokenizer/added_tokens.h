// Added tokens: texts that become one id before normalisation and BPE see them ("<|im_end|>"), found as
// Hugging Face does (tokenizers, tokenizer/added_vocabulary.rs): leftmost first, the longest of those that
// begin at one place.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "base/token.h"

namespace nanovllm {

// kParse: added tokens in the text become their ids. kAsText: the *special* ones among them stay plain text,
// so that a user's message cannot forge a turn.
enum class SpecialTokens { kParse, kAsText };

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

  // The whole text in order. text is valid UTF-8.
  std::vector<TextPart> split(std::string_view text, SpecialTokens special) const;

 private:
  const AddedToken* longest_at(std::string_view text) const;

  std::vector<AddedToken> tokens_;  // by content
  bool starts_[256] = {};           // first bytes of the tokens
};

}  // namespace nanovllm
