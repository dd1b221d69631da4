// The methods of Python's str.
#pragma once

#include <string_view>

#include "tokenizer/jinja_callable.h"

namespace nanovllm::jinja {

// Null when str has no method of that name.
MethodFunction find_string_method(std::string_view name);

// text.replace(from, to, count); count < 0: all.
Text replace_text(Budget& budget, const Text& text, std::string_view from, const Text& to, int64_t count);

// Padded with blanks to a width in characters; `before` of the blanks stand before the text.
Text pad_text(Budget& budget, const Text& text, int64_t width, char side, const Text& fill = " ");

}  // namespace nanovllm::jinja
