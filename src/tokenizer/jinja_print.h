// Values as text: Python's str() and repr(), and json.dumps() as the filter tojson uses it.
#pragma once

#include <string>

#include "tokenizer/jinja_callable.h"
#include "tokenizer/jinja_value.h"

namespace nanovllm::jinja {

Text to_str(Budget& budget, const Value& value);
Text to_repr(Budget& budget, const Value& value);

struct JsonFormat {
  bool ensure_ascii = false;  // non-ASCII text as \uXXXX
  bool sort_keys = false;
  bool on_lines = false;  // every item on its own line, behind `indent` for each level
  Text indent;
  Text item_separator = ", ", key_separator = ": ";
};
// Refuses what is not JSON: undefined values, generators, namespaces ...
Text to_json(Budget& budget, const Value& value, const JsonFormat& format);

}  // namespace nanovllm::jinja
