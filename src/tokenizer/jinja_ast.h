// A parsed template: statements and expressions as plain trees, immutable once built.
#pragma once

#include <cstddef>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "tokenizer/jinja_callable.h"
#include "tokenizer/jinja_source.h"
#include "tokenizer/jinja_value.h"

namespace nanovllm::jinja {

struct Expression;
using ExpressionPtr = std::unique_ptr<const Expression>;

enum class Operator {
  kAdd,
  kSubtract,
  kMultiply,
  kDivide,
  kFloorDivide,
  kModulo,
  kPower,
  kEqual,
  kNotEqual,
  kLess,
  kLessEqual,
  kGreater,
  kGreaterEqual,
  kIn,
  kNotIn,
};

// What parts and the other fields mean, by kind:
struct Expression {
  enum Kind {
    kLiteral,      // value
    kName,         // name
    kList,         // parts
    kTuple,        // parts
    kDict,         // parts: key, value, key, value ...
    kAttribute,    // parts[0].name
    kItem,         // parts[0][parts[1]]
    kSlice,        // parts: begin, end, step; each may be null. Only as parts[1] of an item
    kCall,         // parts[0](arguments)
    kFilter,       // parts[0] | name(arguments); parts[0] is null at the head of a filter block
    kTest,         // parts[0] is name(arguments)
    kNot,          // parts[0]
    kNegative,     // parts[0]
    kPositive,     // parts[0]
    kAnd,          // parts[0], parts[1]
    kOr,           // parts[0], parts[1]
    kArithmetic,   // parts[0] operators[0] parts[1]
    kConcat,       // parts, joined as text
    kCompare,      // parts[0] operators[0] parts[1] operators[1] parts[2] ...
    kConditional,  // parts: value if true, condition, value if false (null: undefined)
  };
  struct Argument {
    enum Form { kPositional, kKeyword, kStar, kDoubleStar } form;
    std::string name;  // of a keyword
    ExpressionPtr value;
  };

  Kind kind;
  size_t offset;  // in the source
  int depth = 1;  // of the tree below, itself included
  Value value = {};
  std::string name = {};
  std::vector<ExpressionPtr> parts = {};
  std::vector<Argument> arguments = {};
  std::vector<Operator> operators = {};
  FilterFunction filter = nullptr;  // null: unknown, an error when reached
  TestFunction test = nullptr;      // as filter
};

struct Statement;
using Body = std::vector<Statement>;

struct Parameter {
  std::string name;
  ExpressionPtr fallback;  // null: undefined when left out
};

// A target is a kName, a kTuple of targets, or a kAttribute of a kName (a namespace's).
struct Statement {
  enum Kind {
    kText,         // text
    kPrint,        // expressions[0]
    kIf,           // for each i: if expressions[i] then bodies[i]; one body more is the else
    kFor,          // target, expressions: iterable, condition (null: none); bodies: body, else
    kSet,          // target, expressions[0]
    kSetBlock,     // target, expressions[0]: chain of filters or null; bodies[0]
    kMacro,        // name, parameters, bodies[0]
    kCallBlock,    // parameters, expressions[0]: the call; bodies[0]
    kFilterBlock,  // expressions[0]: chain of filters; bodies[0]
    kWith,         // targets, expressions: their values; bodies[0]
    kScope,        // bodies[0], with variables of its own: generation
    kBlock,        // bodies[0], which sees top-level variables only
    kAutoescape,   // expressions[0], bodies[0]
    kBreak,
    kContinue,
  };

  Kind kind;
  size_t offset;
  Text text = {};
  std::string name = {};
  ExpressionPtr target = {};
  std::vector<ExpressionPtr> targets = {};
  std::vector<ExpressionPtr> expressions = {};
  std::vector<Parameter> parameters = {};
  std::vector<Body> bodies = {};
  bool recursive = false;      // of kFor: loop(...) may be called
  bool takes_varargs = false;  // of kMacro: the body names varargs, kwargs, caller
  bool takes_kwargs = false;
  bool takes_caller = false;
};

struct Template {
  Source source;
  Body body;
};

}  // namespace nanovllm::jinja
