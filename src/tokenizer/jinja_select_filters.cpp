// map, select, reject and their like: filters that are given a filter, a test or an attribute.
#include "tokenizer/jinja_filters.h"
#include "tokenizer/jinja_operators.h"

namespace nanovllm::jinja {
namespace {

// The arguments behind the first `count`.
Arguments rest_of(const Arguments& a, size_t count) {
  return {{a.positional.begin() + std::ptrdiff_t(count), a.positional.end()}, a.named};
}

const std::string& name_argument(const Value& name, std::string_view what) {
  if (!name.is_string()) refuse("the name of a ", what, " is ", type_name(name), ", want a text");
  return name.text();
}

Value map(Machine& machine, const Value& input, const Arguments& a) {
  if (!is_true(input)) return make_generator({});  // none and 0 too, whatever the arguments
  std::vector<Value> results;
  if (a.positional.empty()) {
    const Bound bound("map", a, {"attribute", "default"}, 1);
    const AttributePath path(bound[0]);
    for (const Value& item : iterate(machine.budget, input)) {
      Value result = path.of(machine.budget, item);
      results.push_back(result.is_undefined() && bound.has(1) ? bound[1] : result);
    }
    return make_generator(std::move(results));
  }
  const std::string& name = name_argument(a.positional[0], "filter");
  const FilterFunction filter = find_filter(name);
  if (!filter) refuse("no filter is named '", name, "'");
  const Arguments arguments = rest_of(a, 1);
  for (const Value& item : iterate(machine.budget, input))
    results.push_back(filter(machine, item, arguments));
  return make_generator(std::move(results));
}

// Keeps the items whose value or attribute passes the test (without one: is true), or those that fail.
template <bool kByAttribute, bool kKeep>
Value select(Machine& machine, const Value& input, const Arguments& a) {
  if (!is_true(input)) return make_generator({});
  constexpr size_t kBefore = kByAttribute ? 1 : 0;
  if (a.positional.size() < kBefore) refuse("selectattr or rejectattr lacks the name of an attribute");
  const AttributePath path(kByAttribute ? a.positional[0] : Value::string(""));
  TestFunction test = nullptr;
  Arguments arguments;
  if (a.positional.size() > kBefore) {
    const std::string& name = name_argument(a.positional[kBefore], "test");
    test = find_test(name);
    if (!test) refuse("no test is named '", name, "'");
    arguments = rest_of(a, kBefore + 1);
  }
  std::vector<Value> kept;
  for (Value& item : iterate(machine.budget, input)) {
    const Value value = path.of(machine.budget, item);
    const bool passes = test ? test(machine, value, arguments) : is_true(value);
    if (passes == kKeep) kept.push_back(std::move(item));
  }
  return make_generator(std::move(kept));
}

constexpr NamedFilter kFilters[] = {
    {"map", map},
    {"select", select<false, true>},
    {"reject", select<false, false>},
    {"selectattr", select<true, true>},
    {"rejectattr", select<true, false>},
};

}  // namespace

std::span<const NamedFilter> select_filters() { return kFilters; }

}  // namespace nanovllm::jinja
