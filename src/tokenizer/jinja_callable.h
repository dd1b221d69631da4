// How filters, tests, methods and functions are called.
#pragma once

#include <ctime>
#include <functional>
#include <initializer_list>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "tokenizer/jinja_value.h"

namespace nanovllm::jinja {

// What one render may cost. A template or a request that needs more is hostile or broken.
class Budget {
 public:
  // Ten million steps take about a second; the longest real conversations take some hundred thousand.
  static constexpr size_t kMaxSteps = 10'000'000;
  // Text and list items made, all in all. Templates that add turn by turn to one string copy it each time:
  // this allows a thousand turns of a final prompt of 1 MB.
  static constexpr size_t kMaxBytes = size_t{512} << 20;
  // One prompt, or one text or list on the way to it. Far beyond what any model reads.
  static constexpr size_t kMaxOutput = size_t{64} << 20;

  void step(size_t count = 1) {
    steps_ += count;
    if (steps_ > kMaxSteps || count > kMaxSteps)
      refuse("the template runs for more than ", kMaxSteps, " steps");
  }
  // Call it before the text or the list is made.
  void bytes(size_t count) {
    if (count > kMaxOutput) refuse("the template makes more than ", kMaxOutput >> 20, " MiB at once");
    if ((bytes_ += count) > kMaxBytes)
      refuse("the template makes more than ", kMaxBytes >> 20, " MiB of text and lists");
  }
  void items(size_t count) {
    step(count);
    bytes(count * sizeof(Value));
  }

 private:
  size_t steps_ = 0, bytes_ = 0;
};

struct Arguments {
  std::vector<Value> positional;
  std::vector<std::pair<std::string, Value>> named;
};

// The render that a filter or function works for.
class Machine {
 public:
  virtual ~Machine() = default;
  virtual Value call(const Value& callee, const Arguments& arguments) = 0;
  virtual Value make_namespace(Dict items) = 0;

  Budget budget;
  std::time_t now = 0;
  bool autoescape = false;
};

// Arguments bound to parameters: parameter i is positional argument i or the one of that name.
// Refuses, with the callee's name: too many, an unknown name, one given twice, fewer than `required`.
class Bound {
 public:
  Bound(std::string_view callee, const Arguments& arguments, std::initializer_list<std::string_view> names,
        size_t required = 0);

  bool has(size_t i) const { return given_[i]; }
  const Value& operator[](size_t i) const { return values_[i]; }  // undefined when not given
  Value get(size_t i, Value fallback) const { return given_[i] ? values_[i] : fallback; }
  bool truth(size_t i, bool fallback) const;
  int64_t integer(size_t i, int64_t fallback) const;
  // A string; refuses anything else.
  const std::string& string(size_t i) const { return text(i).str(); }
  const Text& text(size_t i) const;

 private:
  std::string callee_;
  std::vector<Value> values_;
  std::vector<bool> given_;
};

using FilterFunction = Value (*)(Machine&, const Value& input, const Arguments&);
using TestFunction = bool (*)(Machine&, const Value& input, const Arguments&);
using MethodFunction = Value (*)(Machine&, const Value& self, const Arguments&);

// Null when there is none of that name.
FilterFunction find_filter(std::string_view name);
TestFunction find_test(std::string_view name);
// The global functions, undefined if there is none of that name.
Value find_global(std::string_view name);

// A function with a name, and what it is bound to.
struct Function : Object {
  using Body = std::function<Value(Machine&, const Arguments&)>;
  Function(std::string name, Body body, int holds = 0) : name(std::move(name)), body(std::move(body)) {
    depth = holds;
  }
  std::string type_name() const override { return "function"; }
  Text repr() const override { return {"<function " + name + ">", Origin::kTemplate}; }
  bool is_callable() const override { return true; }

  std::string name;
  Body body;
};

// Variables that a template may set from anywhere: {% set ns.x = 1 %}. Lives as long as its render, which
// owns it, so that a namespace may hold itself.
struct Namespace : Object {
  std::string type_name() const override { return "Namespace"; }
  Value attribute(const std::string& name, const Value&) const override {
    const Value* item = items.find(name);
    return item ? *item : Value();
  }

  Dict items;
};

// A row of values that is not a list: what map, items(), range and their like give.
struct Iterator : Object {
  enum Form {
    kGenerator,  // can be walked once
    kView,       // of a dict: has a length, no items by index
    kRange,      // has a length and items by index
  };
  Iterator(Form form, std::string type, Text text, std::vector<Value> values)
      : form(form), type(std::move(type)), text(std::move(text)), values(std::move(values)) {
    depth = 1 + deepest(this->values);
  }
  std::string type_name() const override { return type; }
  Text repr() const override { return text.empty() ? Object::repr() : text; }

  Form form;
  std::string type;
  Text text;  // what it prints as; empty: as its kind does
  std::vector<Value> values;
  size_t next = 0;  // of a generator: the values before are gone
};

Value make_generator(std::vector<Value> values);

}  // namespace nanovllm::jinja
