// What may follow `is`.
#include "tokenizer/jinja_callable.h"
#include "tokenizer/jinja_number.h"
#include "tokenizer/jinja_operators.h"
#include "tokenizer/jinja_print.h"
#include "tokenizer/jinja_text.h"

namespace nanovllm::jinja {
namespace {

// A test without arguments.
template <bool (*kHolds)(const Value&)>
bool simple(Machine&, const Value& v, const Arguments& a) {
  Bound("the test", a, {});
  return kHolds(v);
}

bool defined(const Value& v) { return !v.is_undefined(); }
bool undefined(const Value& v) { return v.is_undefined(); }
bool none(const Value& v) { return v.is_none(); }
bool string(const Value& v) { return v.is_string(); }
bool mapping(const Value& v) { return v.is_dict(); }
bool boolean(const Value& v) { return v.is(Kind::kBool); }
bool integer(const Value& v) { return v.is(Kind::kInteger); }
bool real(const Value& v) { return v.is(Kind::kFloat); }
bool number(const Value& v) { return v.is_number(); }
bool is_true_itself(const Value& v) { return v.is(Kind::kBool) && v.as_bool(); }
bool is_false_itself(const Value& v) { return v.is(Kind::kBool) && !v.as_bool(); }
bool escaped(const Value& v) { return v.is_markup(); }
bool data_row(const Value& v) { return v.is_string() || v.is_sequence() || v.is_dict() || v.is_undefined(); }
bool iterable(const Value& v) { return data_row(v) || v.as<Iterator>(); }
bool sequence(const Value& v) {
  const Iterator* row = v.as<Iterator>();
  return data_row(v) || (row && row->form == Iterator::kRange);
}
bool callable(const Value& v) { return v.is(Kind::kObject) && v.as_object().is_callable(); }

template <Operator kOperator>
bool compares(Machine& machine, const Value& v, const Arguments& a) {
  const Bound bound("the test", a, {"other"}, 1);
  return compare(machine.budget, kOperator, v, bound[0]);
}

bool same_as(Machine&, const Value& v, const Arguments& a) {
  return v.same_as(Bound("sameas", a, {"other"}, 1)[0]);
}

Value remainder(Machine& machine, const Value& v, const Value& divisor) {
  return arithmetic(machine.budget, Operator::kModulo, v, divisor);
}

bool divisible_by(Machine& machine, const Value& v, const Arguments& a) {
  const Bound bound("divisibleby", a, {"num"}, 1);
  return !is_true(remainder(machine, v, bound[0]));
}

template <int kRemainder>
bool parity(Machine& machine, const Value& v, const Arguments& a) {
  Bound("the test", a, {});
  return same_key(remainder(machine, v, Value::integer(2)), Value::integer(kRemainder));
}

template <bool kUpper>
bool in_case(Machine& machine, const Value& v, const Arguments& a) {
  Bound("the test", a, {});
  const std::string text = to_str(machine.budget, v).str(), upper = to_upper(text), lower = to_lower(text);
  return upper != lower && text == (kUpper ? upper : lower);
}

bool is_filter(Machine&, const Value& v, const Arguments& a) {
  Bound("filter", a, {});
  return v.is_string() && find_filter(v.text());
}

bool is_test(Machine&, const Value& v, const Arguments& a) {
  Bound("test", a, {});
  return v.is_string() && find_test(v.text());
}

struct NamedTest {
  std::string_view name;
  TestFunction function;
};
constexpr NamedTest kTests[] = {
    {"defined", simple<defined>},
    {"undefined", simple<undefined>},
    {"none", simple<none>},
    {"string", simple<string>},
    {"mapping", simple<mapping>},
    {"boolean", simple<boolean>},
    {"integer", simple<integer>},
    {"float", simple<real>},
    {"number", simple<number>},
    {"true", simple<is_true_itself>},
    {"false", simple<is_false_itself>},
    {"escaped", simple<escaped>},
    {"iterable", simple<iterable>},
    {"sequence", simple<sequence>},
    {"callable", simple<callable>},
    {"sameas", same_as},
    {"divisibleby", divisible_by},
    {"even", parity<0>},
    {"odd", parity<1>},
    {"upper", in_case<true>},
    {"lower", in_case<false>},
    {"filter", is_filter},
    {"test", is_test},
    {"in", compares<Operator::kIn>},
    {"eq", compares<Operator::kEqual>},
    {"==", compares<Operator::kEqual>},
    {"equalto", compares<Operator::kEqual>},
    {"ne", compares<Operator::kNotEqual>},
    {"!=", compares<Operator::kNotEqual>},
    {"lt", compares<Operator::kLess>},
    {"<", compares<Operator::kLess>},
    {"lessthan", compares<Operator::kLess>},
    {"le", compares<Operator::kLessEqual>},
    {"<=", compares<Operator::kLessEqual>},
    {"gt", compares<Operator::kGreater>},
    {">", compares<Operator::kGreater>},
    {"greaterthan", compares<Operator::kGreater>},
    {"ge", compares<Operator::kGreaterEqual>},
    {">=", compares<Operator::kGreaterEqual>},
};

}  // namespace

TestFunction find_test(std::string_view name) {
  for (const NamedTest& test : kTests)
    if (test.name == name) return test.function;
  return nullptr;
}

}  // namespace nanovllm::jinja
