// What the operators and the subscripts of a template do, by Python's rules.
// All throw Failure where Python raises an error; an undefined operand fails with the reason it carries.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "tokenizer/jinja_ast.h"
#include "tokenizer/jinja_callable.h"
#include "tokenizer/jinja_value.h"

namespace nanovllm::jinja {

bool is_true(const Value& value);

// a op b for + - * / // % **.
Value arithmetic(Budget& budget, Operator op, const Value& a, const Value& b);
Value negative(const Value& value);

bool equal(Budget& budget, const Value& a, const Value& b);
bool less(Budget& budget, const Value& a, const Value& b);
bool contains(Budget& budget, const Value& container, const Value& item);
bool compare(Budget& budget, Operator op, const Value& a, const Value& b);

// What `for` walks over: items, keys, characters; empty for undefined. A generator is used up.
std::vector<Value> iterate(Budget& budget, const Value& value);
// Nothing where Python's len() fails.
std::optional<size_t> length_of(const Value& value);

// value.name: attribute first, then key. Undefined if there is neither.
Value get_attribute(const Value& value, const std::string& name);
// value[key]: key first, then attribute. Undefined if there is neither.
Value get_item(Budget& budget, const Value& value, const Value& key);
// value[begin:end:step]; parts may be none. Refuses what has no slices.
Value get_slice(Budget& budget, const Value& value, const Value& begin, const Value& end, const Value& step);

// The method of that name, bound to the value; undefined if there is none. Those that change a list or dict
// are undefined with a reason, as in the sandbox that transformers renders in.
Value get_method(const Value& self, const std::string& name);

// text % arguments
Text format_percent(Budget& budget, const Value& format, const Value& arguments);
// text.format(arguments)
Text format_braces(Budget& budget, const Text& format, const Arguments& arguments);

// Text of the same kind as `like`: markup stays markup.
Value text_like(const Value& like, Text text);
// A part of a text, of the same kind. part: a view into whole.text().
Value part_of(const Value& whole, std::string_view part);

}  // namespace nanovllm::jinja
