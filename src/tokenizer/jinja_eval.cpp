// The interpreter's expressions.
#include <algorithm>

#include "base/assert.h"
#include "tokenizer/jinja_interpreter.h"
#include "tokenizer/jinja_operators.h"
#include "tokenizer/jinja_print.h"
#include "tokenizer/jinja_text.h"

namespace nanovllm::jinja {

using E = Expression;

// Small, so that deep recursion stays cheap: what needs locals has a function of its own.
Value Interpreter::eval(const Expression& e) {
  const Level level(*this);
  budget.step();
  switch (e.kind) {
    case E::kLiteral:
      return e.value;
    case E::kName:
      return eval_name(e);
    case E::kList:
    case E::kTuple:
      return eval_row(e);
    case E::kDict:
      return eval_dict(e);
    case E::kAttribute:
    case E::kItem:
      return eval_item(e);
    case E::kSlice:
      break;  // evaluated by its item
    case E::kCall:
      return eval_call(e, nullptr);
    case E::kFilter:
      return eval_filter(e, nullptr);
    case E::kTest:
      return eval_test(e);
    case E::kNot:
      return Value::boolean(!is_true(eval(*e.parts[0])));
    case E::kNegative:
    case E::kPositive:
    case E::kArithmetic:
      return eval_arithmetic(e);
    case E::kAnd:
    case E::kOr:
    case E::kConditional:
      return eval_conditional(e);
    case E::kConcat:
      return eval_concat(e);
    case E::kCompare:
      return eval_compare(e);
  }
  ASSERT(false);
  return Value();
}

Value Interpreter::eval_name(const Expression& e) {
  offset_ = e.offset;
  for (const Scope* scope = scope_; scope; scope = scope->parent) {
    budget.step();
    if (const Value* value = scope->find(e.name)) return *value;
  }
  if (const Value* value = variables_.as_dict().find(e.name)) return *value;
  Value global = find_global(e.name);
  return global.is_undefined() ? Value::undefined("'" + e.name + "' is undefined") : global;
}

Value Interpreter::eval_row(const Expression& e) {
  std::vector<Value> items;
  items.reserve(e.parts.size());
  for (const ExpressionPtr& part : e.parts) items.push_back(eval(*part));
  offset_ = e.offset;
  budget.bytes(items.size() * sizeof(Value));
  return e.kind == E::kList ? Value::list(std::move(items)) : Value::tuple(std::move(items));
}

Value Interpreter::eval_dict(const Expression& e) {
  Dict dict;
  for (size_t i = 0; i < e.parts.size(); i += 2) {
    Value key = eval(*e.parts[i]);
    if (!can_be_key(key)) refuse("a value of type ", type_name(key), " cannot be a key");
    dict.set(std::move(key), eval(*e.parts[i + 1]));
  }
  offset_ = e.offset;
  budget.bytes(e.parts.size() * sizeof(Value));
  return Value::dict(std::move(dict));
}

Value Interpreter::eval_item(const Expression& e) {
  const Value value = eval(*e.parts[0]);
  if (e.kind == E::kAttribute) {
    offset_ = e.offset;
    return get_attribute(value, e.name);
  }
  const Expression& index = *e.parts[1];
  if (index.kind != E::kSlice) {
    const Value key = eval(index);
    offset_ = e.offset;
    return get_item(budget, value, key);
  }
  Value ends[3];
  for (size_t i = 0; i < 3; ++i) ends[i] = index.parts[i] ? eval(*index.parts[i]) : Value::none();
  offset_ = e.offset;
  return get_slice(budget, value, ends[0], ends[1], ends[2]);
}

Arguments Interpreter::eval_arguments(const Expression& e) {
  Arguments arguments;
  for (const E::Argument& argument : e.arguments) {
    Value value = eval(*argument.value);
    switch (argument.form) {
      case E::Argument::kPositional:
        arguments.positional.push_back(std::move(value));
        break;
      case E::Argument::kKeyword:
        arguments.named.emplace_back(argument.name, std::move(value));
        break;
      case E::Argument::kStar:
        for (Value& item : iterate(budget, value)) arguments.positional.push_back(std::move(item));
        break;
      case E::Argument::kDoubleStar:
        if (!value.is_dict()) refuse("** of a value of type ", type_name(value), ", want a dict");
        budget.items(value.as_dict().size());
        for (const auto& [key, item] : value.as_dict().items()) {
          if (!key.is_string()) refuse("** of a dict with a key of type ", type_name(key), ", want text");
          arguments.named.emplace_back(key.text(), item);
        }
        break;
    }
  }
  return arguments;
}

Value Interpreter::eval_call(const Expression& e, const Arguments* more) {
  const Value callee = eval(*e.parts[0]);
  Arguments arguments = eval_arguments(e);
  if (more) arguments.named.insert(arguments.named.end(), more->named.begin(), more->named.end());
  offset_ = e.parts[0]->offset;
  return call(callee, arguments);
}

// input: what a block gives to the head of its chain of filters.
Value Interpreter::eval_filter(const Expression& e, const Value* input) {
  const Value value = !e.parts[0] ? *input : input ? eval_filter(*e.parts[0], input) : eval(*e.parts[0]);
  const Arguments arguments = eval_arguments(e);
  offset_ = e.offset;
  if (!e.filter) refuse("no filter is named '", e.name, "'");
  return e.filter(*this, value, arguments);
}

Value Interpreter::eval_test(const Expression& e) {
  const Value value = eval(*e.parts[0]);
  const Arguments arguments = eval_arguments(e);
  offset_ = e.offset;
  if (!e.test) refuse("no test is named '", e.name, "'");
  return Value::boolean(e.test(*this, value, arguments));
}

Value Interpreter::eval_concat(const Expression& e) {
  Text text;
  for (const ExpressionPtr& part : e.parts) {
    const Value value = eval(*part);
    Text piece = to_str(budget, value);
    if (autoescape && !value.is_markup()) piece = escape_html(piece);
    text += piece;
  }
  return autoescape ? Value::markup(std::move(text)) : Value::string(std::move(text));
}

Value Interpreter::eval_compare(const Expression& e) {
  Value left = eval(*e.parts[0]);
  for (size_t i = 0; i < e.operators.size(); ++i) {
    Value right = eval(*e.parts[i + 1]);
    offset_ = e.offset;
    if (!compare(budget, e.operators[i], left, right)) return Value::boolean(false);
    left = std::move(right);
  }
  return Value::boolean(true);
}

Value Interpreter::eval_arithmetic(const Expression& e) {
  const Value a = eval(*e.parts[0]);
  if (e.kind == E::kArithmetic) {
    const Value b = eval(*e.parts[1]);
    offset_ = e.offset;
    return arithmetic(budget, e.operators[0], a, b);
  }
  offset_ = e.offset;
  const Value minus = negative(a);
  return e.kind == E::kNegative ? minus : negative(minus);
}

Value Interpreter::eval_conditional(const Expression& e) {
  if (e.kind == E::kConditional) {
    if (is_true(eval(*e.parts[1]))) return eval(*e.parts[0]);
    return e.parts[2] ? eval(*e.parts[2]) : Value::undefined("the condition is false and there is no else");
  }
  Value left = eval(*e.parts[0]);
  const bool decided = is_true(left) == (e.kind == E::kOr);
  return decided ? left : eval(*e.parts[1]);
}

}  // namespace nanovllm::jinja
