#include "tokenizer/jinja_callable.h"

#include <algorithm>

#include "tokenizer/jinja_number.h"
#include "tokenizer/jinja_operators.h"

namespace nanovllm::jinja {

Bound::Bound(std::string_view callee, const Arguments& arguments,
             std::initializer_list<std::string_view> names, size_t required)
    : callee_(callee), values_(names.size()), given_(names.size()) {
  if (arguments.positional.size() > names.size())
    refuse(callee, " takes ", names.size(), " arguments, not ", arguments.positional.size());
  for (size_t i = 0; i < arguments.positional.size(); ++i) {
    values_[i] = arguments.positional[i];
    given_[i] = true;
  }
  for (const auto& [name, value] : arguments.named) {
    const size_t i = size_t(std::find(names.begin(), names.end(), name) - names.begin());
    if (i == names.size()) refuse(callee, " takes no argument named '", name, "'");
    if (given_[i]) refuse(callee, " gets '", name, "' twice");
    values_[i] = value;
    given_[i] = true;
  }
  for (size_t i = 0; i < required; ++i)
    if (!given_[i]) refuse(callee, " lacks its argument '", *(names.begin() + i), "'");
}

bool Bound::truth(size_t i, bool fallback) const { return given_[i] ? is_true(values_[i]) : fallback; }

int64_t Bound::integer(size_t i, int64_t fallback) const {
  if (!given_[i]) return fallback;
  const Value& value = values_[i];
  if (value.is_undefined()) refuse(value.why());
  if (value.is_big() || !(value.is(Kind::kInteger) || value.is(Kind::kBool)))
    refuse("argument ", i + 1, " of ", callee_, " is ", type_name(value),
           ", want an integer of at most 64 bits");
  return value.as_integer();
}

const Text& Bound::text(size_t i) const {
  const Value& value = values_[i];
  if (value.is_undefined()) refuse(value.why());
  if (!value.is_string())
    refuse("argument ", i + 1, " of ", callee_, " is ", type_name(value), ", want a text");
  return value.prompt_text();
}

Value make_generator(std::vector<Value> values) {
  return Value::object(std::make_shared<Iterator>(Iterator::kGenerator, "generator", "", std::move(values)));
}

}  // namespace nanovllm::jinja
