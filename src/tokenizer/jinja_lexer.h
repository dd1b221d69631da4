// A chat template as tokens, with white-space control already done: trim_blocks and lstrip_blocks are on, as
// transformers sets them.
//
// The rules, on the source (shared by Jinja 2 and 3):
//   {%- {{- {#-   remove all white space before       -%} -}} -#}   all white space after
//   %} and #}     remove one newline directly after   +%} keeps it
//   {% and {#     remove white space back to the start of their line, if nothing else stands there; {%+ keeps
//   it
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "tokenizer/jinja_source.h"
#include "tokenizer/jinja_value.h"

namespace nanovllm::jinja {

struct Token {
  enum Kind {
    kText,        // outside tags
    kPrintBegin,  // {{
    kPrintEnd,    // }}
    kBlockBegin,  // {%
    kBlockEnd,    // %}
    kName,
    kString,
    kNumber,
    kOperator,
    kEnd,
  };
  Kind kind;
  size_t offset;     // in the source
  std::string text;  // of a string literal with its escapes resolved
  Value number;
};

// How a token is called in messages.
std::string describe(const Token& token);

// The last token is kEnd.
// throws Error(kConfig): a tag, a string or a comment without end; a character that no token begins with
std::vector<Token> tokenize(const Source& source);

}  // namespace nanovllm::jinja
