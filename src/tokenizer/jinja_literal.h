// The literals of a template: names, numbers, and strings with their escapes.
#pragma once

#include <string>
#include <string_view>

#include "tokenizer/jinja_source.h"
#include "tokenizer/jinja_value.h"

namespace nanovllm::jinja {

// Bytes of the name that the text begins with; 0 if none.
size_t name_length(std::string_view text);

struct NumberLiteral {
  Value value;
  size_t length;  // bytes
};
// The text begins with a digit. After a dot (a.0.1) there is no fraction.
NumberLiteral read_number(std::string_view text, bool after_dot);

// What stands between the quotes, with Python's escapes resolved; an unknown one keeps its backslash.
// offset: of the literal, for messages. throws Error(kConfig): an escape cut short, or beyond Unicode
std::string resolve_escapes(const Source& source, size_t offset, std::string_view text);

}  // namespace nanovllm::jinja
