// The objects that refer back to the tree: macros and the variable `loop`.
#pragma once

#include "tokenizer/jinja_interpreter.h"
#include "tokenizer/jinja_number.h"

namespace nanovllm::jinja {

// Also the caller() of a call block.
struct Interpreter::Macro : Object {
  Macro(const Statement& definition, std::string name, Scope* scope)
      : definition(definition), name(std::move(name)), scope(scope) {}
  std::string type_name() const override { return "Macro"; }
  Text repr() const override { return {"<Macro '" + name + "'>", Origin::kTemplate}; }
  bool is_callable() const override { return true; }
  Value attribute(const std::string& attribute, const Value&) const override {
    return attribute == "name" ? Value::string({name, Origin::kTemplate}) : Value();
  }

  const Statement& definition;
  std::string name;
  Scope* scope;  // where it was defined; the render owns it
};

struct Interpreter::Loop : Object {
  Loop(const Statement& statement, std::vector<Value> values, Scope* scope, int nesting)
      : statement(statement), items(std::move(values)), scope(scope), nesting(nesting) {
    depth = 1 + deepest(items);
  }
  std::string type_name() const override { return "LoopContext"; }
  bool is_callable() const override { return true; }
  Text repr() const override {
    return {"<LoopContext " + std::to_string(index + 1) + "/" + std::to_string(items.size()) + ">",
            Origin::kTemplate};
  }
  Value attribute(const std::string& attribute, const Value& self) const override;

  const Statement& statement;
  std::vector<Value> items;
  Scope* scope;  // around the loop
  int nesting;   // of recursive calls, 0 for the outermost
  size_t index = 0;
  std::vector<Value> last_changed;  // may hold this loop itself, so it is emptied when the loop ends
  bool changed_before = false, ended = false;

  struct End {
    ~End() {
      loop.ended = true;
      loop.last_changed.clear();
    }
    Loop& loop;
  };
};

}  // namespace nanovllm::jinja
