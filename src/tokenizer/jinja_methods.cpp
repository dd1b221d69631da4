// Python's methods of text, lists and dicts.
#include <algorithm>

#include "tokenizer/jinja_operators.h"
#include "tokenizer/jinja_print.h"
#include "tokenizer/jinja_string_methods.h"
#include "tokenizer/jinja_text.h"

namespace nanovllm::jinja {
namespace {

struct Method {
  std::string_view name;
  MethodFunction function;
};

Value view(const char* type, std::vector<Value> values) {
  return Value::object(std::make_shared<Iterator>(Iterator::kView, type, "", std::move(values)));
}

Value dict_items(Machine& machine, const Value& self, const Arguments& a) {
  Bound("items()", a, {});
  machine.budget.items(self.as_dict().size() * 2);
  std::vector<Value> pairs;
  for (const auto& [key, value] : self.as_dict().items()) pairs.push_back(Value::tuple({key, value}));
  return view("dict_items", std::move(pairs));
}

Value dict_keys(Machine& machine, const Value& self, const Arguments& a) {
  Bound("keys()", a, {});
  return view("dict_keys", iterate(machine.budget, self));
}

Value dict_values(Machine& machine, const Value& self, const Arguments& a) {
  Bound("values()", a, {});
  machine.budget.items(self.as_dict().size());
  std::vector<Value> values;
  for (const auto& item : self.as_dict().items()) values.push_back(item.second);
  return view("dict_values", std::move(values));
}

Value dict_get(Machine& machine, const Value& self, const Arguments& a) {
  const Bound bound("get()", a, {"key", "default"}, 1);
  if (!can_be_key(bound[0])) refuse("a value of type ", type_name(bound[0]), " cannot be a key");
  if (!bound[0].is_string()) machine.budget.step(self.as_dict().size());
  const Value* found = self.as_dict().find(bound[0]);
  return found ? *found : bound.get(1, Value::none());
}

Value copy(Machine&, const Value& self, const Arguments& a) {
  Bound("copy()", a, {});
  return self;
}

Value list_index(Machine& machine, const Value& self, const Arguments& a) {
  const Bound bound("index()", a, {"value"}, 1);
  for (size_t i = 0; i < self.items().size(); ++i)
    if (equal(machine.budget, self.items()[i], bound[0])) return Value::integer(int64_t(i));
  refuse("index(): the value is not in the list");
}

Value list_count(Machine& machine, const Value& self, const Arguments& a) {
  const Bound bound("count()", a, {"value"}, 1);
  int64_t count = 0;
  for (const Value& item : self.items()) count += equal(machine.budget, item, bound[0]);
  return Value::integer(count);
}

constexpr Method kDictMethods[] = {
    {"items", dict_items}, {"keys", dict_keys}, {"values", dict_values}, {"get", dict_get}, {"copy", copy}};
constexpr Method kListMethods[] = {{"index", list_index}, {"count", list_count}, {"copy", copy}};
constexpr Method kTupleMethods[] = {{"index", list_index}, {"count", list_count}};

// What changes its object. Values are shared here, and the sandbox of transformers forbids these too.
constexpr std::string_view kChangesDict[] = {"clear", "pop", "popitem", "setdefault", "update"};
constexpr std::string_view kChangesList[] = {"append", "clear",  "extend",  "insert",
                                             "pop",    "remove", "reverse", "sort"};

template <class Table>
MethodFunction find_in(const Table& table, std::string_view name) {
  for (const Method& method : table)
    if (method.name == name) return method.function;
  return nullptr;
}

template <class Table>
bool names(const Table& table, std::string_view name) {
  return std::find(std::begin(table), std::end(table), name) != std::end(table);
}

}  // namespace

Value get_method(const Value& self, const std::string& name) {
  MethodFunction function = nullptr;
  switch (self.kind()) {
    case Kind::kString:
      function = find_string_method(name);
      break;
    case Kind::kTuple:
      function = find_in(kTupleMethods, name);
      break;
    case Kind::kList:
      if (names(kChangesList, name))
        return Value::undefined("'" + name + "' would change a list, which a template may not");
      function = find_in(kListMethods, name);
      break;
    case Kind::kDict:
      if (names(kChangesDict, name))
        return Value::undefined("'" + name + "' would change a dict, which a template may not");
      function = find_in(kDictMethods, name);
      break;
    default:
      break;
  }
  if (!function) return Value();
  const auto bound = [function, self](Machine& machine, const Arguments& a) {
    return function(machine, self, a);
  };
  return Value::object(std::make_shared<Function>(name, bound, self.depth() + 1));
}

}  // namespace nanovllm::jinja
