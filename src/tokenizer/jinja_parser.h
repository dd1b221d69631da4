// Jinja's grammar: tokens to trees. One class, in two files: expressions and statements.
#pragma once

#include <initializer_list>
#include <string>
#include <string_view>
#include <vector>

#include "tokenizer/jinja_ast.h"
#include "tokenizer/jinja_lexer.h"

namespace nanovllm::jinja {

// Nesting of tags, brackets and operators. Templates stay below 30; the parser and the interpreter recurse
// this deep.
constexpr int kMaxNesting = 200;

// throws Error(kConfig) "name:line:column: ...": what Jinja calls a syntax error, an unknown filter or test
// that does not stand under a condition, and nesting beyond kMaxNesting
Template parse_template(Source source);

class Parser {
 public:
  explicit Parser(const Source& source);
  Body parse();

 private:
  using Names = std::initializer_list<std::string_view>;

  // Counts nested constructs while it lives.
  struct Nest {
    explicit Nest(Parser& parser) : parser(parser) {
      if (++parser.nesting_ > kMaxNesting) parser.fail_here("nested more than ", kMaxNesting, " levels deep");
    }
    ~Nest() { --parser.nesting_; }
    Parser& parser;
  };

  // Tokens.
  const Token& token() const { return tokens_[at_]; }
  const Token& ahead() const { return tokens_[std::min(at_ + 1, tokens_.size() - 1)]; }
  bool is_name(std::string_view name) const { return token().kind == Token::kName && token().text == name; }
  bool is_operator(std::string_view op) const {
    return token().kind == Token::kOperator && token().text == op;
  }
  bool skip_name(std::string_view name);
  bool skip_operator(std::string_view op);
  void want_operator(std::string_view op);
  void want_name(std::string_view name);
  std::string want_any_name(std::string_view what);
  void want(Token::Kind kind, std::string_view what);
  template <class... Parts>
  [[noreturn]] void fail_here(const Parts&... parts) const {
    source_.fail_at(token().offset, parts...);
  }
  [[noreturn]] void fail_unexpected(std::string_view wanted) const {
    fail_here("unexpected ", describe(token()), ", want ", wanted);
  }

  // Expressions, from the loosest binding to the tightest.
  using ParsePart = ExpressionPtr (Parser::*)();
  ExpressionPtr make(Expression expression) const;
  ExpressionPtr node(Expression::Kind kind, size_t offset, ExpressionPtr a, ExpressionPtr b = {},
                     ExpressionPtr c = {});
  ExpressionPtr parse_expression();  // with a conditional
  ExpressionPtr parse_or();
  ExpressionPtr parse_and();
  ExpressionPtr parse_not();
  ExpressionPtr parse_compare();
  ExpressionPtr parse_sum();
  ExpressionPtr parse_concat();
  ExpressionPtr parse_product();
  ExpressionPtr parse_power();
  ExpressionPtr parse_unary();
  ExpressionPtr parse_signed();  // without filters
  ExpressionPtr parse_primary();
  ExpressionPtr parse_postfix(ExpressionPtr operand);
  ExpressionPtr parse_filters(ExpressionPtr operand);
  ExpressionPtr parse_binary(ParsePart part,
                             std::initializer_list<std::pair<std::string_view, Operator>> operators);
  ExpressionPtr parse_subscript(ExpressionPtr operand);
  ExpressionPtr parse_index();
  ExpressionPtr parse_call(ExpressionPtr callee);
  ExpressionPtr parse_filter(ExpressionPtr operand);  // the token is the filter's name
  ExpressionPtr parse_test(ExpressionPtr operand);
  ExpressionPtr parse_list();
  ExpressionPtr parse_dict();
  ExpressionPtr parse_parentheses();
  std::vector<Expression::Argument> parse_arguments();
  std::string parse_dotted_name(std::string_view what);
  // One element, or a tuple when commas follow.
  ExpressionPtr parse_tuple(ParsePart element);
  bool ends_tuple() const;

  // Statements.
  Body parse_body(Names ends);  // stops behind the "{%" of a tag of that name
  void parse_statement(Body& body);
  Statement parse_for();
  Statement parse_if();
  Statement parse_set();
  Statement parse_macro();
  Statement parse_call_block();
  Statement parse_filter_block();
  Statement parse_with();
  Statement parse_block();
  Statement parse_autoescape();
  Statement parse_jump(Statement::Kind kind);
  void close_block(std::string_view name);
  Body parse_function_body(std::string_view end);  // break and continue do not reach out of it
  std::vector<Parameter> parse_parameters();
  ExpressionPtr parse_target(bool allow_attribute);
  ExpressionPtr parse_one_target(bool allow_attribute);
  ExpressionPtr parse_filter_chain(ExpressionPtr operand);

  const Source& source_;
  std::vector<Token> tokens_;
  size_t at_ = 0;
  int nesting_ = 0;
  int loops_ = 0;       // loops around, within the same function body
  int conditions_ = 0;  // ifs around: an unknown filter there fails only when it is reached
  bool varargs_ = false, kwargs_ = false, caller_ = false;  // whether the macro body at hand names them
  struct Unknown {
    size_t offset;
    std::string message;
  };
  std::vector<Unknown> unknown_;  // filters and tests that no condition guards
};

}  // namespace nanovllm::jinja
