// Token ids to text, one by one, for streams. The pieces joined are Tokenizer::decode of the whole list.
//
// Held back is only what may still become a character: a proper prefix of one, so at most 3 bytes. Bytes that
// no continuation can mend come out as U+FFFD at once.
#pragma once

#include <string>

#include "base/token.h"
#include "tokenizer/tokenizer.h"

namespace nanovllm {

// One per sequence.
class Detokenizer {
 public:
  // tokenizer outlives this.
  Detokenizer(const Tokenizer& tokenizer, SpecialText special_text)
      : tokenizer_(tokenizer), special_text_(special_text) {}

  std::string push(TokenId id);  // the text that became certain with this token; may be ""
  std::string finish();          // what was held back: "" or one U+FFFD. Then ready for another sequence.

 private:
  const Tokenizer& tokenizer_;
  SpecialText special_text_;
  std::string held_;  // a proper prefix of a character
};

}  // namespace nanovllm
