// The parser's expressions: one function for each level of precedence, from the loosest to the tightest.
#include <algorithm>

#include "tokenizer/jinja_parser.h"

namespace nanovllm::jinja {

using E = Expression;

ExpressionPtr Parser::make(Expression expression) const {
  const auto take = [&](const ExpressionPtr& part) {
    if (part) expression.depth = std::max(expression.depth, part->depth + 1);
  };
  for (const ExpressionPtr& part : expression.parts) take(part);
  for (const E::Argument& argument : expression.arguments) take(argument.value);
  // Chains such as a + b + c ... need no nesting to parse, but make deep trees.
  if (expression.depth > kMaxNesting)
    source_.fail_at(expression.offset, "an expression nests more than ", kMaxNesting, " levels deep");
  return std::make_unique<const Expression>(std::move(expression));
}

ExpressionPtr Parser::node(E::Kind kind, size_t offset, ExpressionPtr a, ExpressionPtr b, ExpressionPtr c) {
  Expression e{.kind = kind, .offset = offset};
  e.parts.push_back(std::move(a));
  if (b) e.parts.push_back(std::move(b));
  if (c) e.parts.push_back(std::move(c));
  return make(std::move(e));
}

ExpressionPtr Parser::parse_expression() {
  const Nest nest(*this);
  const size_t offset = token().offset;
  const size_t num_unknown = unknown_.size();
  ExpressionPtr value = parse_or();
  while (skip_name("if")) {
    Expression e{.kind = E::kConditional, .offset = offset};
    e.parts.push_back(std::move(value));
    e.parts.push_back(parse_or());
    e.parts.push_back(skip_name("else") ? parse_expression() : nullptr);
    value = make(std::move(e));
    unknown_.erase(unknown_.begin() + std::ptrdiff_t(num_unknown),
                   unknown_.end());  // guarded by the condition
  }
  return value;
}

ExpressionPtr Parser::parse_or() {
  ExpressionPtr left = parse_and();
  for (size_t offset = token().offset; skip_name("or"); offset = token().offset)
    left = node(E::kOr, offset, std::move(left), parse_and());
  return left;
}

ExpressionPtr Parser::parse_and() {
  ExpressionPtr left = parse_not();
  for (size_t offset = token().offset; skip_name("and"); offset = token().offset)
    left = node(E::kAnd, offset, std::move(left), parse_not());
  return left;
}

ExpressionPtr Parser::parse_not() {
  const Nest nest(*this);
  const size_t offset = token().offset;
  if (skip_name("not")) return node(E::kNot, offset, parse_not());
  return parse_compare();
}

ExpressionPtr Parser::parse_compare() {
  constexpr std::pair<std::string_view, Operator> kComparisons[] = {
      {"==", Operator::kEqual},     {"!=", Operator::kNotEqual}, {"<", Operator::kLess},
      {"<=", Operator::kLessEqual}, {">", Operator::kGreater},   {">=", Operator::kGreaterEqual}};
  Expression e{.kind = E::kCompare, .offset = token().offset};
  e.parts.push_back(parse_sum());
  for (;;) {
    const size_t offset = token().offset;
    const auto found = std::find_if(std::begin(kComparisons), std::end(kComparisons),
                                    [&](const auto& entry) { return is_operator(entry.first); });
    if (found != std::end(kComparisons)) {
      ++at_;
      e.operators.push_back(found->second);
    } else if (skip_name("in")) {
      e.operators.push_back(Operator::kIn);
    } else if (is_name("not") && ahead().kind == Token::kName && ahead().text == "in") {
      at_ += 2;
      e.operators.push_back(Operator::kNotIn);
    } else {
      break;
    }
    if (e.operators.size() == 1) e.offset = offset;
    e.parts.push_back(parse_sum());
  }
  return e.operators.empty() ? std::move(e.parts[0]) : make(std::move(e));
}

ExpressionPtr Parser::parse_binary(ParsePart part,
                                   std::initializer_list<std::pair<std::string_view, Operator>> operators) {
  ExpressionPtr left = (this->*part)();
  for (;;) {
    const auto found = std::find_if(operators.begin(), operators.end(),
                                    [&](const auto& entry) { return is_operator(entry.first); });
    if (found == operators.end()) return left;
    Expression e{.kind = E::kArithmetic, .offset = token().offset};
    ++at_;
    e.operators.push_back(found->second);
    e.parts.push_back(std::move(left));
    e.parts.push_back((this->*part)());
    left = make(std::move(e));
  }
}

ExpressionPtr Parser::parse_sum() {
  return parse_binary(&Parser::parse_concat, {{"+", Operator::kAdd}, {"-", Operator::kSubtract}});
}

ExpressionPtr Parser::parse_concat() {
  Expression e{.kind = E::kConcat, .offset = token().offset};
  e.parts.push_back(parse_product());
  while (skip_operator("~")) e.parts.push_back(parse_product());
  return e.parts.size() == 1 ? std::move(e.parts[0]) : make(std::move(e));
}

ExpressionPtr Parser::parse_product() {
  return parse_binary(&Parser::parse_power, {{"*", Operator::kMultiply},
                                             {"/", Operator::kDivide},
                                             {"//", Operator::kFloorDivide},
                                             {"%", Operator::kModulo}});
}

ExpressionPtr Parser::parse_power() { return parse_binary(&Parser::parse_unary, {{"**", Operator::kPower}}); }

// A sign binds tighter than a filter: -1 | abs is 1.
ExpressionPtr Parser::parse_unary() { return parse_filters(parse_signed()); }

ExpressionPtr Parser::parse_signed() {
  const Nest nest(*this);
  const size_t offset = token().offset;
  if (skip_operator("-")) return parse_postfix(node(E::kNegative, offset, parse_signed()));
  if (skip_operator("+")) return parse_postfix(node(E::kPositive, offset, parse_signed()));
  return parse_postfix(parse_primary());
}

ExpressionPtr Parser::parse_primary() {
  const size_t offset = token().offset;
  Expression e{.kind = E::kLiteral, .offset = offset};
  if (token().kind == Token::kString) {
    std::string text;
    for (; token().kind == Token::kString; ++at_) text += token().text;
    e.value = Value::string({std::move(text), Origin::kTemplate});
    return make(std::move(e));
  }
  if (token().kind == Token::kNumber) {
    e.value = token().number;
    ++at_;
    return make(std::move(e));
  }
  if (token().kind == Token::kName) {
    const std::string& name = token().text;
    if (name == "true" || name == "True") {
      e.value = Value::boolean(true);
    } else if (name == "false" || name == "False") {
      e.value = Value::boolean(false);
    } else if (name == "none" || name == "None") {
      e.value = Value::none();
    } else {
      e.kind = E::kName;
      e.name = name;
      varargs_ |= name == "varargs";
      kwargs_ |= name == "kwargs";
      caller_ |= name == "caller";
    }
    ++at_;
    return make(std::move(e));
  }
  if (skip_operator("(")) return parse_parentheses();
  if (skip_operator("[")) return parse_list();
  if (skip_operator("{")) return parse_dict();
  fail_unexpected("an expression");
}

ExpressionPtr Parser::parse_parentheses() {
  const size_t offset = tokens_[at_ - 1].offset;
  if (skip_operator(")")) return make({.kind = E::kTuple, .offset = offset});
  ExpressionPtr inside = parse_tuple(&Parser::parse_expression);
  want_operator(")");
  return inside;
}

bool Parser::ends_tuple() const {
  return token().kind == Token::kPrintEnd || token().kind == Token::kBlockEnd || is_operator(")") ||
         is_operator("=") || is_name("in") || is_name("recursive");
}

ExpressionPtr Parser::parse_tuple(ParsePart element) {
  Expression e{.kind = E::kTuple, .offset = token().offset};
  e.parts.push_back((this->*element)());
  if (!is_operator(",")) return std::move(e.parts[0]);
  while (skip_operator(",") && !ends_tuple()) e.parts.push_back((this->*element)());
  return make(std::move(e));
}

ExpressionPtr Parser::parse_list() {
  Expression e{.kind = E::kList, .offset = tokens_[at_ - 1].offset};
  while (!is_operator("]")) {
    if (!e.parts.empty()) want_operator(",");
    if (is_operator("]")) break;
    e.parts.push_back(parse_expression());
  }
  want_operator("]");
  return make(std::move(e));
}

ExpressionPtr Parser::parse_dict() {
  Expression e{.kind = E::kDict, .offset = tokens_[at_ - 1].offset};
  while (!is_operator("}")) {
    if (!e.parts.empty()) want_operator(",");
    if (is_operator("}")) break;
    e.parts.push_back(parse_expression());
    want_operator(":");
    e.parts.push_back(parse_expression());
  }
  want_operator("}");
  return make(std::move(e));
}

ExpressionPtr Parser::parse_postfix(ExpressionPtr operand) {
  for (;;) {
    if (is_operator(".") || is_operator("["))
      operand = parse_subscript(std::move(operand));
    else if (is_operator("("))
      operand = parse_call(std::move(operand));
    else
      return operand;
  }
}

ExpressionPtr Parser::parse_filters(ExpressionPtr operand) {
  for (;;) {
    if (skip_operator("|"))
      operand = parse_filter(std::move(operand));
    else if (is_name("is"))
      operand = parse_test(std::move(operand));
    else if (is_operator("("))
      operand = parse_call(std::move(operand));
    else
      return operand;
  }
}

ExpressionPtr Parser::parse_subscript(ExpressionPtr operand) {
  const size_t offset = token().offset;
  if (skip_operator(".")) {
    if (token().kind == Token::kNumber && token().number.is(Kind::kInteger)) {  // a.0
      ExpressionPtr index = make({.kind = E::kLiteral, .offset = token().offset, .value = token().number});
      ++at_;
      return node(E::kItem, offset, std::move(operand), std::move(index));
    }
    Expression e{.kind = E::kAttribute, .offset = offset, .name = want_any_name("a name or a number")};
    e.parts.push_back(std::move(operand));
    return make(std::move(e));
  }
  want_operator("[");
  std::vector<ExpressionPtr> indices;
  while (!is_operator("]")) {
    if (!indices.empty()) want_operator(",");
    indices.push_back(parse_index());
  }
  for (const ExpressionPtr& index : indices)
    if (indices.size() > 1 && index->kind == E::kSlice)
      source_.fail_at(index->offset, "a slice beside other indices, want it alone");
  want_operator("]");
  if (indices.size() == 1) return node(E::kItem, offset, std::move(operand), std::move(indices[0]));
  ExpressionPtr tuple = make({.kind = E::kTuple, .offset = offset, .parts = std::move(indices)});
  return node(E::kItem, offset, std::move(operand), std::move(tuple));
}

// An index, or a slice: [begin]:[end][:[step]].
ExpressionPtr Parser::parse_index() {
  const auto absent = [&] { return is_operator(":") || is_operator("]") || is_operator(","); };
  Expression slice{.kind = E::kSlice, .offset = token().offset};
  slice.parts.resize(3);
  if (!is_operator(":")) {
    ExpressionPtr first = parse_expression();
    if (!is_operator(":")) return first;
    slice.parts[0] = std::move(first);
  }
  for (size_t part = 1; part < 3 && skip_operator(":"); ++part)
    if (!absent()) slice.parts[part] = parse_expression();
  return make(std::move(slice));
}

std::vector<E::Argument> Parser::parse_arguments() {
  want_operator("(");
  std::vector<E::Argument> arguments;
  bool keywords = false, stars = false;
  while (!is_operator(")")) {
    if (!arguments.empty()) {
      want_operator(",");
      if (is_operator(")")) break;
    }
    E::Argument argument{};
    if (skip_operator("**")) {
      argument.form = E::Argument::kDoubleStar;
      keywords = true;
    } else if (skip_operator("*")) {
      argument.form = E::Argument::kStar;
      if (keywords || stars) fail_here("* among the arguments, want it before all keywords, once");
      stars = true;
    } else if (token().kind == Token::kName && ahead().kind == Token::kOperator && ahead().text == "=") {
      argument.form = E::Argument::kKeyword;
      argument.name = token().text;
      at_ += 2;
      keywords = true;
    } else {
      if (keywords || stars) fail_here("an argument without a name, want those before the ones with names");
      argument.form = E::Argument::kPositional;
    }
    argument.value = parse_expression();
    arguments.push_back(std::move(argument));
  }
  want_operator(")");
  return arguments;
}

ExpressionPtr Parser::parse_call(ExpressionPtr callee) {
  Expression e{.kind = E::kCall, .offset = token().offset};
  e.parts.push_back(std::move(callee));
  e.arguments = parse_arguments();
  return make(std::move(e));
}

std::string Parser::parse_dotted_name(std::string_view what) {
  std::string name = want_any_name(what);
  while (skip_operator(".")) name += "." + want_any_name(what);
  return name;
}

ExpressionPtr Parser::parse_filter(ExpressionPtr operand) {
  Expression e{.kind = E::kFilter, .offset = token().offset, .name = parse_dotted_name("a filter")};
  e.filter = find_filter(e.name);
  if (!e.filter && conditions_ == 0) unknown_.push_back({e.offset, "no filter is named '" + e.name + "'"});
  e.parts.push_back(std::move(operand));
  if (is_operator("(")) e.arguments = parse_arguments();
  return make(std::move(e));
}

ExpressionPtr Parser::parse_test(ExpressionPtr operand) {
  want_name("is");
  const bool negated = skip_name("not");
  Expression e{.kind = E::kTest, .offset = token().offset, .name = parse_dotted_name("a test")};
  const size_t offset = e.offset;
  e.test = find_test(e.name);
  if (!e.test && conditions_ == 0) unknown_.push_back({e.offset, "no test is named '" + e.name + "'"});
  e.parts.push_back(std::move(operand));
  const bool value_follows = token().kind == Token::kName || token().kind == Token::kString ||
                             token().kind == Token::kNumber || is_operator("[") || is_operator("{");
  if (is_name("is")) fail_here("a test follows a test, want 'and' between them");
  if (is_operator("(")) {
    e.arguments = parse_arguments();
  } else if (value_follows && !is_name("else") && !is_name("or") && !is_name("and")) {
    E::Argument argument{
        .form = E::Argument::kPositional, .name = {}, .value = parse_postfix(parse_primary())};
    e.arguments.push_back(std::move(argument));
  }
  ExpressionPtr test = make(std::move(e));
  return negated ? node(E::kNot, offset, std::move(test)) : std::move(test);
}

}  // namespace nanovllm::jinja
