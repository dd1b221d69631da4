// The filters, by what they work on, and what several of them share.
#pragma once

#include <span>
#include <string_view>

#include "tokenizer/jinja_callable.h"

namespace nanovllm::jinja {

struct NamedFilter {
  std::string_view name;
  FilterFunction function;
};

std::span<const NamedFilter> text_filters();      // jinja_text_filters.cpp
std::span<const NamedFilter> value_filters();     // jinja_value_filters.cpp: of any value, and numbers
std::span<const NamedFilter> sequence_filters();  // jinja_sequence_filters.cpp
std::span<const NamedFilter>
select_filters();  // jinja_select_filters.cpp: with a test, a filter or an attribute

// What `attribute=` names: an item by number, or a path as in 'function.name'.
class AttributePath {
 public:
  explicit AttributePath(const Value& attribute);
  Value of(Budget& budget, Value value) const;

 private:
  std::vector<Value> keys_;
};

// What sort, unique and their like compare: texts without their case, unless case_sensitive.
Value sort_key(Budget& budget, const Value& value, bool case_sensitive);

}  // namespace nanovllm::jinja
