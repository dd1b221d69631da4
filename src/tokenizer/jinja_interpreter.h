// Runs a parsed template once: the tree is walked, text is appended.
//
// Scopes are looked up from the inside out, then come the caller's variables, then the global functions. A
// macro keeps the scope it was defined in, so scopes and namespaces live as long as the render, which owns
// them; nothing else can form a circle.
#pragma once

#include <deque>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "tokenizer/jinja_ast.h"
#include "tokenizer/jinja_callable.h"

namespace nanovllm::jinja {

// Evaluations within evaluations, through macros too. A frame of each takes below 1 KB of stack (4 KB under
// the address sanitizer), so that a thread's 8 MB hold several times this.
constexpr int kMaxRecursion = 1000;

struct Scope {
  const Value* find(std::string_view name) const;
  void set(std::string_view name, Value value);

  Scope* parent = nullptr;
  std::vector<std::pair<std::string_view, Value>> variables;  // few; names live in the tree
  bool kept = false;                                          // a macro remembers it
};

class Interpreter : public Machine {
 public:
  // variables: a dict. Both must outlive the interpreter.
  Interpreter(const Template& parsed, const Value& variables, std::time_t now);

  // throws Failure; then offset() says where in the source.
  Text run();
  size_t offset() const { return offset_; }

  Value call(const Value& callee, const Arguments& arguments) override;
  Value make_namespace(Dict items) override;

 private:
  enum class Flow { kNext, kBreak, kContinue };

  // A scope inside the present one (or inside `parent`), while it lives.
  class Inner {
   public:
    explicit Inner(Interpreter& run) : Inner(run, run.scope_) {}
    Inner(Interpreter& run, Scope* parent);
    ~Inner();
    Inner(const Inner&) = delete;
    Inner& operator=(const Inner&) = delete;

   private:
    Interpreter& run_;
    Scope* outer_;
  };
  struct Level {
    explicit Level(Interpreter& run);
    ~Level() { --run.level_; }
    Interpreter& run;
  };
  struct Macro;
  struct Loop;

  // Statements.
  Flow execute(const Body& body);
  Flow execute(const Statement& statement);
  Flow execute_if(const Statement& s);
  Flow execute_for(const Statement& s, const Value& iterable, Scope* parent, int depth);
  Flow execute_with(const Statement& s);
  Flow execute_captured(const Statement& s);
  Flow execute_autoescape(const Statement& s);
  void execute_call_block(const Statement& s);
  void define_macro(const Statement& s);
  std::vector<Value> passing(const Statement& s, std::vector<Value> items, Scope* parent);
  void print(const Value& value);
  void write(const Text& text);
  void assign(const Expression& target, const Value& value);
  // What f writes, as a value.
  template <class F>
  Value capture(F&& f);
  Value call_macro(const Macro& macro, const Arguments& arguments);
  Scope* keep_scope();

  // Expressions.
  Value eval(const Expression& e);
  Value eval_name(const Expression& e);
  Value eval_row(const Expression& e);
  Value eval_dict(const Expression& e);
  Value eval_item(const Expression& e);
  Value eval_call(const Expression& e, const Arguments* more);
  Value eval_filter(const Expression& e, const Value* input);
  Value eval_test(const Expression& e);
  Value eval_concat(const Expression& e);
  Value eval_compare(const Expression& e);
  Value eval_arithmetic(const Expression& e);
  Value eval_conditional(const Expression& e);
  Arguments eval_arguments(const Expression& e);

  const Template& parsed_;
  const Value& variables_;
  std::deque<Scope> scopes_;
  std::vector<Scope*> free_scopes_;
  std::deque<Namespace> namespaces_;
  Scope* top_ = nullptr;
  Scope* scope_ = nullptr;
  Text* out_ = nullptr;
  int level_ = 0;
  size_t offset_ = 0;
};

}  // namespace nanovllm::jinja
