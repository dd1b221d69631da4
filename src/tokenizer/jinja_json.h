// JSON to values: order kept, and numbers as they were written (1, 1.0, integers of up to 308 digits).
#pragma once

#include <string_view>

#include "tokenizer/jinja_value.h"

namespace nanovllm::jinja {

// throws Error(kRequest), which names the byte: not JSON, not UTF-8, nested deeper than kMaxValueDepth, an
// integer of more than 4300 digits
Value parse_json(std::string_view text);

}  // namespace nanovllm::jinja
