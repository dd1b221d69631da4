#include "tokenizer/jinja_interpreter.h"

#include <algorithm>

#include "tokenizer/jinja_macro.h"
#include "tokenizer/jinja_operators.h"
#include "tokenizer/jinja_print.h"
#include "tokenizer/jinja_text.h"

namespace nanovllm::jinja {

using S = Statement;

const Value* Scope::find(std::string_view name) const {
  for (const auto& [known, value] : variables)
    if (known == name) return &value;
  return nullptr;
}

void Scope::set(std::string_view name, Value value) {
  for (auto& [known, old] : variables) {
    if (known != name) continue;
    old = std::move(value);
    return;
  }
  variables.emplace_back(name, std::move(value));
}

Interpreter::Interpreter(const Template& parsed, const Value& variables, std::time_t when)
    : parsed_(parsed), variables_(variables) {
  now = when;
}

Interpreter::Level::Level(Interpreter& run) : run(run) {
  if (++run.level_ > kMaxRecursion) {
    --run.level_;  // the destructor will not run
    refuse("recursion goes deeper than ", kMaxRecursion, " levels");
  }
}

Interpreter::Inner::Inner(Interpreter& run, Scope* parent) : run_(run), outer_(run.scope_) {
  if (run.free_scopes_.empty()) {
    run.budget.bytes(sizeof(Scope));
    run.free_scopes_.push_back(&run.scopes_.emplace_back());
  }
  Scope* scope = run.free_scopes_.back();
  run.free_scopes_.pop_back();
  scope->parent = parent;
  run.scope_ = scope;
}

Interpreter::Inner::~Inner() {
  if (!run_.scope_->kept) {
    run_.scope_->variables.clear();
    run_.free_scopes_.push_back(run_.scope_);
  }
  run_.scope_ = outer_;
}

Scope* Interpreter::keep_scope() {
  for (Scope* scope = scope_; scope && !scope->kept; scope = scope->parent) scope->kept = true;
  return scope_;
}

Text Interpreter::run() {
  Text out;
  out_ = &out;
  const Inner top(*this, nullptr);
  top_ = scope_;
  execute(parsed_.body);
  return out;
}

Value Interpreter::make_namespace(Dict items) {
  budget.bytes(sizeof(Namespace));
  Namespace& made = namespaces_.emplace_back();
  made.items = std::move(items);
  return Value::object(std::shared_ptr<Object>(std::shared_ptr<void>(), &made));  // the render owns it
}

template <class F>
Value Interpreter::capture(F&& f) {
  Text text;
  Text* outer = std::exchange(out_, &text);
  try {
    f();
  } catch (...) {
    out_ = outer;
    throw;
  }
  out_ = outer;
  return autoescape ? Value::markup(std::move(text)) : Value::string(std::move(text));
}

void Interpreter::write(const Text& text) {
  budget.bytes(text.size());
  if (out_->size() + text.size() > Budget::kMaxOutput)
    refuse("the text grows beyond ", Budget::kMaxOutput >> 20, " MiB");
  *out_ += text;
}

void Interpreter::print(const Value& value) {
  if (value.is_string() && (!autoescape || value.is_markup())) return write(value.prompt_text());
  const Text text = to_str(budget, value);
  write(autoescape ? escape_html(text) : text);
}

Interpreter::Flow Interpreter::execute(const Body& body) {
  const Level level(*this);
  for (const Statement& statement : body) {
    budget.step();
    const Flow flow = execute(statement);
    if (flow != Flow::kNext) return flow;
  }
  return Flow::kNext;
}

Interpreter::Flow Interpreter::execute(const Statement& s) {
  switch (s.kind) {
    case S::kText:
      write(s.text);
      break;
    case S::kPrint:
      print(eval(*s.expressions[0]));
      break;
    case S::kIf:
      return execute_if(s);
    case S::kFor:
      return execute_for(s, eval(*s.expressions[0]), scope_, 0);
    case S::kSet:
      assign(*s.target, eval(*s.expressions[0]));
      break;
    case S::kSetBlock:
    case S::kFilterBlock:
      return execute_captured(s);
    case S::kMacro:
      define_macro(s);
      break;
    case S::kCallBlock:
      execute_call_block(s);
      break;
    case S::kWith:
      return execute_with(s);
    case S::kAutoescape:
      return execute_autoescape(s);
    case S::kScope: {
      const Inner inner(*this);
      return execute(s.bodies[0]);
    }
    case S::kBlock: {
      const Inner inner(*this, top_);
      return execute(s.bodies[0]);
    }
    case S::kBreak:
      return Flow::kBreak;
    case S::kContinue:
      return Flow::kContinue;
  }
  return Flow::kNext;
}

Interpreter::Flow Interpreter::execute_if(const Statement& s) {
  for (size_t i = 0; i < s.expressions.size(); ++i)
    if (is_true(eval(*s.expressions[i]))) return execute(s.bodies[i]);
  return s.bodies.size() > s.expressions.size() ? execute(s.bodies.back()) : Flow::kNext;
}

// The items for which the loop's condition holds; it sees the target, not `loop`.
std::vector<Value> Interpreter::passing(const Statement& s, std::vector<Value> items, Scope* parent) {
  if (!s.expressions[1]) return items;
  std::vector<Value> kept;
  for (Value& item : items) {
    const Inner inner(*this, parent);
    assign(*s.target, item);
    if (is_true(eval(*s.expressions[1]))) kept.push_back(std::move(item));
  }
  return kept;
}

Interpreter::Flow Interpreter::execute_for(const Statement& s, const Value& iterable, Scope* parent,
                                           int depth) {
  offset_ = s.offset;
  auto loop = std::make_shared<Loop>(s, passing(s, iterate(budget, iterable), parent), parent, depth);
  const Value loop_value = Value::object(loop);
  const Loop::End end{*loop};
  bool any_finished = false;  // as in Jinja, else runs unless some turn reaches the end of the body
  for (; loop->index < loop->items.size(); ++loop->index) {
    const Inner turn(*this, parent);
    offset_ = s.offset;
    assign(*s.target, loop->items[loop->index]);
    scope_->set("loop", loop_value);
    const Flow flow = execute(s.bodies[0]);
    if (flow == Flow::kBreak) break;
    any_finished |= flow == Flow::kNext;
  }
  if (!any_finished && s.bodies.size() > 1) {
    const Inner inner(*this, parent);
    return execute(s.bodies[1]);
  }
  return Flow::kNext;
}

void Interpreter::assign(const Expression& target, const Value& value) {
  if (target.kind == Expression::kName) return scope_->set(target.name, value);
  if (target.kind == Expression::kAttribute) {
    const Value object = eval(*target.parts[0]);
    offset_ = target.offset;
    Namespace* ns = object.as<Namespace>();
    if (!ns)
      refuse("attributes can be set on a namespace only, '", target.parts[0]->name, "' is ",
             type_name(object));
    budget.bytes(sizeof(Dict::Item));
    ns->items.set(target.name, value);
    return;
  }
  const std::vector<Value> items = iterate(budget, value);
  if (items.size() != target.parts.size())
    refuse(items.size(), " values to unpack, want ", target.parts.size());
  for (size_t i = 0; i < items.size(); ++i) assign(*target.parts[i], items[i]);
}

Interpreter::Flow Interpreter::execute_with(const Statement& s) {
  std::vector<Value> values;
  for (const ExpressionPtr& expression : s.expressions) values.push_back(eval(*expression));
  const Inner inner(*this);
  for (size_t i = 0; i < values.size(); ++i) assign(*s.targets[i], values[i]);
  return execute(s.bodies[0]);
}

// A set block or a filter block. Left by break or continue, it does nothing.
Interpreter::Flow Interpreter::execute_captured(const Statement& s) {
  Flow flow = Flow::kNext;
  Value value = capture([&] {
    const Inner inner(*this);
    flow = execute(s.bodies[0]);
  });
  if (flow != Flow::kNext) return flow;
  if (s.expressions[0]) value = eval_filter(*s.expressions[0], &value);
  if (s.kind == S::kSetBlock)
    assign(*s.target, value);
  else
    print(value);
  return flow;
}

Interpreter::Flow Interpreter::execute_autoescape(const Statement& s) {
  const bool outer = std::exchange(autoescape, is_true(eval(*s.expressions[0])));
  const Inner inner(*this);
  const Flow flow = execute(s.bodies[0]);
  autoescape = outer;
  return flow;
}

void Interpreter::define_macro(const Statement& s) {
  scope_->set(s.name, Value::object(std::make_shared<Macro>(s, s.name, keep_scope())));
}

void Interpreter::execute_call_block(const Statement& s) {
  Arguments caller;
  caller.named.emplace_back("caller", Value::object(std::make_shared<Macro>(s, "caller", keep_scope())));
  print(eval_call(*s.expressions[0], &caller));
}

Value Interpreter::call(const Value& callee, const Arguments& arguments) {
  const Level level(*this);
  if (const Function* function = callee.as<Function>()) return function->body(*this, arguments);
  if (const Macro* macro = callee.as<Macro>()) return call_macro(*macro, arguments);
  if (const Loop* loop = callee.as<Loop>()) {
    if (!loop->statement.recursive) refuse("loop is called, want {% for ... recursive %}");
    if (arguments.positional.size() != 1)
      refuse("loop() takes 1 argument, not ", arguments.positional.size());
    return capture(
        [&] { execute_for(loop->statement, arguments.positional[0], loop->scope, loop->nesting + 1); });
  }
  if (callee.is_undefined()) refuse(callee.why());
  refuse("a value of type ", type_name(callee), " cannot be called");
}

Value Interpreter::call_macro(const Macro& macro, const Arguments& arguments) {
  const Statement& s = macro.definition;
  const std::vector<Value>& given = arguments.positional;
  if (given.size() > s.parameters.size() && !s.takes_varargs)
    refuse("macro '", macro.name, "' takes ", s.parameters.size(), " arguments, not ", given.size());
  const Inner inner(*this, macro.scope);
  Dict others;
  Value caller = Value::undefined("'caller' is undefined: the macro is not called by {% call %}");
  for (const auto& [name, value] : arguments.named) {
    const auto known = std::find_if(s.parameters.begin(), s.parameters.end(),
                                    [&, &name = name](const Parameter& p) { return p.name == name; });
    if (known != s.parameters.end()) {
      if (size_t(known - s.parameters.begin()) < given.size())
        refuse("macro '", macro.name, "' gets '", name, "' twice");
      scope_->set(known->name, value);
    } else if (name == "caller" && s.takes_caller) {
      caller = value;
    } else if (s.takes_kwargs) {
      others.set(name, value);
    } else {
      refuse("macro '", macro.name, "' takes no argument named '", name, "'");
    }
  }
  for (size_t i = 0; i < s.parameters.size(); ++i) {
    const Parameter& parameter = s.parameters[i];
    if (i < given.size())
      scope_->set(parameter.name, given[i]);
    else if (!scope_->find(parameter.name))
      scope_->set(parameter.name, parameter.fallback
                                      ? eval(*parameter.fallback)
                                      : Value::undefined("'" + parameter.name + "' is not given"));
  }
  if (s.takes_caller) scope_->set("caller", caller);
  if (s.takes_kwargs) scope_->set("kwargs", Value::dict(std::move(others)));
  if (s.takes_varargs) {
    const size_t first = std::min(given.size(), s.parameters.size());
    scope_->set("varargs", Value::tuple({given.begin() + std::ptrdiff_t(first), given.end()}));
  }
  return capture([&] { execute(s.bodies[0]); });
}

Value Interpreter::Loop::attribute(const std::string& name, const Value& self) const {
  const auto number = [](size_t n) { return Value::integer(int64_t(n)); };
  if (name == "index") return number(index + 1);
  if (name == "index0") return number(index);
  if (name == "revindex") return number(items.size() - index);
  if (name == "revindex0") return number(items.size() - index - 1);
  if (name == "first") return Value::boolean(index == 0);
  if (name == "last") return Value::boolean(index + 1 == items.size());
  if (name == "length") return number(items.size());
  if (name == "depth") return number(size_t(nesting) + 1);
  if (name == "depth0") return number(size_t(nesting));
  if (name == "previtem")
    return index == 0 ? Value::undefined("the first turn has no loop.previtem") : items[index - 1];
  if (name == "nextitem")
    return index + 1 >= items.size() ? Value::undefined("the last turn has no loop.nextitem")
                                     : items[index + 1];
  if (name == "cycle")
    return Value::object(std::make_shared<Function>(
        "cycle",
        [self](Machine&, const Arguments& a) {
          if (a.positional.empty()) refuse("loop.cycle() takes at least 1 argument");
          return a.positional[self.as<Loop>()->index % a.positional.size()];
        },
        depth + 1));
  if (name == "changed")
    return Value::object(std::make_shared<Function>(
        "changed",
        [self](Machine& machine, const Arguments& a) {
          Loop& loop = *self.as<Loop>();
          const bool same = loop.changed_before && equal(machine.budget, Value::tuple(loop.last_changed),
                                                         Value::tuple(a.positional));
          if (loop.ended) return Value::boolean(!same);
          loop.last_changed = a.positional;
          loop.changed_before = true;
          return Value::boolean(!same);
        },
        depth + 1));
  return Value();
}

}  // namespace nanovllm::jinja
