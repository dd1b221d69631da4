#include "tokenizer/jinja_parser.h"

#include <algorithm>

#include "base/assert.h"

namespace nanovllm::jinja {

using S = Statement;

Template parse_template(Source source) {
  Template parsed{std::move(source), {}};
  parsed.body = Parser(parsed.source).parse();
  return parsed;
}

Parser::Parser(const Source& source) : source_(source), tokens_(tokenize(source)) {}

Body Parser::parse() {
  Body body = parse_body({});
  if (!unknown_.empty()) source_.fail_at(unknown_[0].offset, unknown_[0].message);
  return body;
}

bool Parser::skip_name(std::string_view name) {
  if (!is_name(name)) return false;
  ++at_;
  return true;
}

bool Parser::skip_operator(std::string_view op) {
  if (!is_operator(op)) return false;
  ++at_;
  return true;
}

void Parser::want_operator(std::string_view op) {
  if (!skip_operator(op)) fail_unexpected("'" + std::string(op) + "'");
}

void Parser::want_name(std::string_view name) {
  if (!skip_name(name)) fail_unexpected("'" + std::string(name) + "'");
}

std::string Parser::want_any_name(std::string_view what) {
  if (token().kind != Token::kName) fail_unexpected(what);
  return tokens_[at_++].text;
}

void Parser::want(Token::Kind kind, std::string_view what) {
  if (token().kind != kind) fail_unexpected(what);
  ++at_;
}

Body Parser::parse_body(Names ends) {
  const Nest nest(*this);
  Body body;
  for (;;) {
    const size_t offset = token().offset;
    switch (token().kind) {
      case Token::kText:
        body.push_back({.kind = S::kText, .offset = offset, .text = {token().text, Origin::kTemplate}});
        ++at_;
        break;
      case Token::kPrintBegin: {
        ++at_;
        Statement print{.kind = S::kPrint, .offset = offset};
        print.expressions.push_back(parse_tuple(&Parser::parse_expression));
        want(Token::kPrintEnd, "'}}'");
        body.push_back(std::move(print));
        break;
      }
      case Token::kBlockBegin:
        ++at_;
        if (token().kind != Token::kName) fail_unexpected("the name of a tag");
        if (std::any_of(ends.begin(), ends.end(), [&](std::string_view end) { return is_name(end); }))
          return body;
        parse_statement(body);
        break;
      default:
        ASSERT(token().kind == Token::kEnd);
        if (ends.size() == 0) return body;
        fail_here("the template ends inside a block, want {% ", *(ends.end() - 1), " %}");
    }
  }
}

void Parser::parse_statement(Body& body) {
  const size_t offset = token().offset;
  const std::string tag = tokens_[at_++].text;
  Statement statement;
  if (tag == "for")
    statement = parse_for();
  else if (tag == "if")
    statement = parse_if();
  else if (tag == "set")
    statement = parse_set();
  else if (tag == "macro")
    statement = parse_macro();
  else if (tag == "call")
    statement = parse_call_block();
  else if (tag == "filter")
    statement = parse_filter_block();
  else if (tag == "with")
    statement = parse_with();
  else if (tag == "block")
    statement = parse_block();
  else if (tag == "autoescape")
    statement = parse_autoescape();
  else if (tag == "break")
    statement = parse_jump(S::kBreak);
  else if (tag == "continue")
    statement = parse_jump(S::kContinue);
  else if (tag == "generation") {
    statement.kind = S::kScope;
    close_block("generation");
    statement.bodies.push_back(parse_function_body("endgeneration"));
  } else if (tag == "print") {
    statement.kind = S::kPrint;
    statement.expressions.push_back(parse_tuple(&Parser::parse_expression));
  } else if (tag == "include" || tag == "extends" || tag == "import" || tag == "from") {
    source_.fail_at(offset, "{% ", tag, " %} reads other files, which a chat template cannot");
  } else {
    source_.fail_at(offset, "no tag is named '", tag, "'");
  }
  statement.offset = offset;
  want(Token::kBlockEnd, "'%}'");
  body.push_back(std::move(statement));
}

// The end of an opening tag.
void Parser::close_block(std::string_view name) {
  if (token().kind != Token::kBlockEnd) fail_unexpected("'%}' of " + std::string(name));
  ++at_;
}

Body Parser::parse_function_body(std::string_view end) {
  const int loops = std::exchange(loops_, 0);
  Body body = parse_body({end});
  loops_ = loops;
  ++at_;
  return body;
}

Statement Parser::parse_for() {
  Statement s{.kind = S::kFor, .offset = 0};
  s.target = parse_target(false);
  want_name("in");
  s.expressions.push_back(parse_tuple(&Parser::parse_or));
  s.expressions.push_back(skip_name("if") ? parse_expression() : nullptr);
  s.recursive = skip_name("recursive");
  close_block("for");
  ++loops_;
  s.bodies.push_back(parse_body({"else", "endfor"}));
  --loops_;
  if (skip_name("else")) {
    close_block("else");
    s.bodies.push_back(parse_body({"endfor"}));
  }
  want_name("endfor");
  return s;
}

Statement Parser::parse_if() {
  Statement s{.kind = S::kIf, .offset = 0};
  ++conditions_;
  for (bool more = true; more;) {
    s.expressions.push_back(parse_tuple(&Parser::parse_or));
    close_block("if");
    s.bodies.push_back(parse_body({"elif", "else", "endif"}));
    more = skip_name("elif");
  }
  if (skip_name("else")) {
    close_block("else");
    s.bodies.push_back(parse_body({"endif"}));
  }
  --conditions_;
  want_name("endif");
  return s;
}

Statement Parser::parse_set() {
  Statement s{.kind = S::kSet, .offset = 0};
  s.target = parse_target(true);
  if (skip_operator("=")) {
    s.expressions.push_back(parse_tuple(&Parser::parse_expression));
    return s;
  }
  s.kind = S::kSetBlock;
  s.expressions.push_back(skip_operator("|") ? parse_filter_chain(parse_filter(nullptr)) : nullptr);
  close_block("set");
  s.bodies.push_back(parse_body({"endset"}));
  ++at_;
  return s;
}

// More filters behind the first: upper | trim.
ExpressionPtr Parser::parse_filter_chain(ExpressionPtr filters) {
  while (skip_operator("|")) filters = parse_filter(std::move(filters));
  return filters;
}

std::vector<Parameter> Parser::parse_parameters() {
  std::vector<Parameter> parameters;
  want_operator("(");
  while (!is_operator(")")) {
    if (!parameters.empty()) {
      want_operator(",");
      if (is_operator(")")) break;
    }
    Parameter parameter{want_any_name("the name of a parameter"), nullptr};
    if (skip_operator("=")) {
      parameter.fallback = parse_expression();
    } else if (!parameters.empty() && parameters.back().fallback) {
      fail_here("a parameter without a default follows one with a default");
    }
    parameters.push_back(std::move(parameter));
  }
  want_operator(")");
  return parameters;
}

Statement Parser::parse_macro() {
  Statement s{.kind = S::kMacro, .offset = 0};
  s.name = want_any_name("the name of the macro");
  const bool varargs = std::exchange(varargs_, false), kwargs = std::exchange(kwargs_, false);
  const bool caller = std::exchange(caller_, false);
  s.parameters = parse_parameters();
  close_block("macro");
  s.bodies.push_back(parse_function_body("endmacro"));
  s.takes_varargs = std::exchange(varargs_, varargs);
  s.takes_kwargs = std::exchange(kwargs_, kwargs);
  s.takes_caller = std::exchange(caller_, caller);
  return s;
}

Statement Parser::parse_call_block() {
  Statement s{.kind = S::kCallBlock, .offset = 0};
  if (is_operator("(")) s.parameters = parse_parameters();
  s.expressions.push_back(parse_expression());
  if (s.expressions[0]->kind != Expression::kCall)
    fail_here("{% call %} without a call, want the call of a macro");
  close_block("call");
  s.bodies.push_back(parse_function_body("endcall"));
  return s;
}

Statement Parser::parse_filter_block() {
  Statement s{.kind = S::kFilterBlock, .offset = 0};
  s.expressions.push_back(parse_filter_chain(parse_filter(nullptr)));
  close_block("filter");
  s.bodies.push_back(parse_body({"endfilter"}));
  ++at_;
  return s;
}

Statement Parser::parse_with() {
  Statement s{.kind = S::kWith, .offset = 0};
  while (token().kind != Token::kBlockEnd) {
    if (!s.targets.empty()) want_operator(",");
    s.targets.push_back(parse_one_target(false));
    want_operator("=");
    s.expressions.push_back(parse_expression());
  }
  close_block("with");
  s.bodies.push_back(parse_body({"endwith"}));
  ++at_;
  return s;
}

Statement Parser::parse_block() {
  Statement s{.kind = S::kBlock, .offset = 0};
  s.name = want_any_name("the name of the block");
  close_block("block");
  s.bodies.push_back(parse_function_body("endblock"));
  skip_name(s.name);
  return s;
}

Statement Parser::parse_autoescape() {
  Statement s{.kind = S::kAutoescape, .offset = 0};
  s.expressions.push_back(parse_expression());
  close_block("autoescape");
  s.bodies.push_back(parse_body({"endautoescape"}));
  ++at_;
  return s;
}

Statement Parser::parse_jump(Statement::Kind kind) {
  if (loops_ == 0)
    source_.fail_at(tokens_[at_ - 1].offset, "{% ", tokens_[at_ - 1].text, " %} stands outside a loop");
  return {.kind = kind, .offset = 0};
}

ExpressionPtr Parser::parse_target(bool allow_attribute) {
  Expression tuple{.kind = Expression::kTuple, .offset = token().offset};
  tuple.parts.push_back(parse_one_target(allow_attribute));
  if (!is_operator(",")) return std::move(tuple.parts[0]);
  while (skip_operator(",") && !ends_tuple()) tuple.parts.push_back(parse_one_target(allow_attribute));
  return make(std::move(tuple));
}

ExpressionPtr Parser::parse_one_target(bool allow_attribute) {
  const Nest nest(*this);
  if (skip_operator("(")) {
    ExpressionPtr inside = parse_target(allow_attribute);
    want_operator(")");
    return inside;
  }
  const size_t offset = token().offset;
  const std::string name = want_any_name("a variable to assign to");
  for (std::string_view constant : {"true", "false", "none", "True", "False", "None"})
    if (name == constant) source_.fail_at(offset, "'", name, "' is a constant, want a variable to assign to");
  ExpressionPtr target = make({.kind = Expression::kName, .offset = offset, .name = name});
  if (!allow_attribute || !skip_operator(".")) return target;
  Expression attribute{
      .kind = Expression::kAttribute, .offset = offset, .name = want_any_name("an attribute")};
  attribute.parts.push_back(std::move(target));
  return make(std::move(attribute));
}

}  // namespace nanovllm::jinja
