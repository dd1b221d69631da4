#include "tokenizer/jinja_operators.h"

#include <algorithm>
#include <cmath>

#include "tokenizer/jinja_number.h"
#include "tokenizer/jinja_print.h"
#include "tokenizer/jinja_text.h"

namespace nanovllm::jinja {
namespace {

const char* symbol(Operator op) {
  constexpr const char* kSymbols[] = {
      "+", "-", "*", "/", "//", "%", "**", "==", "!=", "<", "<=", ">", ">=", "in", "not in"};
  return kSymbols[size_t(op)];
}

[[noreturn]] void refuse_operands(Operator op, const Value& a, const Value& b) {
  for (const Value* operand : {&a, &b})
    if (operand->is_undefined()) refuse(operand->why());
  refuse("'", symbol(op), "' between ", type_name(a), " and ", type_name(b), " is not possible");
}

[[noreturn]] void refuse_large(Operator op) {
  refuse("the result of '", symbol(op), "' is beyond 38 digits");
}

Wide floor_divide(Wide a, Wide b) { return a / b - ((a % b != 0) && ((a < 0) != (b < 0))); }

Value integer_arithmetic(Operator op, const Value& x, const Value& y) {
  const Wide a = need_wide(x), b = need_wide(y);
  Wide result = 0;
  switch (op) {
    case Operator::kAdd:
      if (__builtin_add_overflow(a, b, &result)) refuse_large(op);
      return from_wide(result);
    case Operator::kSubtract:
      if (__builtin_sub_overflow(a, b, &result)) refuse_large(op);
      return from_wide(result);
    case Operator::kMultiply:
      if (__builtin_mul_overflow(a, b, &result)) refuse_large(op);
      return from_wide(result);
    case Operator::kFloorDivide:
      if (b == 0) refuse("division by zero");
      if (b == -1)
        return integer_arithmetic(Operator::kMultiply, x, y);  // the one quotient that may overflow
      return from_wide(floor_divide(a, b));
    case Operator::kModulo:
      if (b == 0) refuse("division by zero");
      return b == -1 ? Value::integer(0) : from_wide(a - floor_divide(a, b) * b);
    case Operator::kPower: {
      if (b < 0) {
        if (a == 0) refuse("zero to a negative power");
        return Value::real(std::pow(double(a), double(b)));
      }
      if (a == 0 || a == 1) return from_wide(b == 0 ? 1 : a);
      if (a == -1) return Value::integer(b % 2 == 0 ? 1 : -1);
      result = 1;
      for (Wide i = 0; i < b; ++i)  // overflows after 127 turns at most
        if (__builtin_mul_overflow(result, a, &result)) refuse_large(op);
      return from_wide(result);
    }
    default:
      break;
  }
  if (b == 0) refuse("division by zero");
  return Value::real(number_as_double(x) / number_as_double(y));
}

Value float_arithmetic(Operator op, double a, double b) {
  if (b == 0 && (op == Operator::kDivide || op == Operator::kFloorDivide || op == Operator::kModulo))
    refuse("division by zero");
  double remainder = 0;
  if (op == Operator::kFloorDivide || op == Operator::kModulo) {
    remainder = std::fmod(a, b);
    if (remainder != 0 && (remainder < 0) != (b < 0)) remainder += b;
    if (remainder == 0) remainder = std::copysign(0.0, b);
  }
  switch (op) {
    case Operator::kAdd:
      return Value::real(a + b);
    case Operator::kSubtract:
      return Value::real(a - b);
    case Operator::kMultiply:
      return Value::real(a * b);
    case Operator::kDivide:
      return Value::real(a / b);
    case Operator::kFloorDivide:
      return Value::real(std::round((a - remainder) / b));
    case Operator::kModulo:
      return Value::real(remainder);
    default:
      break;
  }
  if (a == 0 && b < 0) refuse("zero to a negative power");
  const double power = std::pow(a, b);
  if (std::isnan(power) && !std::isnan(a) && !std::isnan(b))
    refuse("a negative number to a fractional power");
  return Value::real(power);
}

Value add_text(Budget& budget, const Value& a, const Value& b) {
  budget.bytes(a.text().size() + b.text().size());
  const bool mixed = a.is_markup() != b.is_markup();
  Text text;
  for (const Value* part : {&a, &b})
    text += mixed && !part->is_markup() ? escape_html(part->prompt_text()) : part->prompt_text();
  return mixed ? Value::markup(std::move(text)) : text_like(a, std::move(text));
}

Value add_items(Budget& budget, const Value& a, const Value& b) {
  budget.items(a.items().size() + b.items().size());
  std::vector<Value> items = a.items();
  items.insert(items.end(), b.items().begin(), b.items().end());
  return a.is(Kind::kList) ? Value::list(std::move(items)) : Value::tuple(std::move(items));
}

Value repeat(Budget& budget, const Value& row, const Value& count) {
  const Wide wide = need_wide(count);
  const size_t size = row.is_string() ? row.text().size() : row.items().size();
  const size_t times = wide <= 0 || size == 0 ? 0 : size_t(std::min<Wide>(wide, Budget::kMaxBytes + 1));
  if (times > Budget::kMaxBytes / std::max<size_t>(size, 1)) budget.bytes(Budget::kMaxBytes + 1);  // refuses
  if (row.is_string()) {
    budget.bytes(size * times);
    Text text;
    for (size_t i = 0; i < times; ++i) text += row.prompt_text();
    return text_like(row, std::move(text));
  }
  budget.items(size * times);
  std::vector<Value> items;
  for (size_t i = 0; i < times; ++i) items.insert(items.end(), row.items().begin(), row.items().end());
  return row.is(Kind::kList) ? Value::list(std::move(items)) : Value::tuple(std::move(items));
}

bool is_whole(const Value& v) { return v.is(Kind::kInteger) || v.is(Kind::kBool); }

// -1, 0, 1 by Python's order; refuses kinds that have none.
int order(Budget& budget, const Value& a, const Value& b, Operator op) {
  budget.step();
  if (a.is_number() && b.is_number()) return compare_numbers(a, b);
  if (a.is_string() && b.is_string()) {
    budget.bytes(std::min(a.text().size(), b.text().size()) / 8);  // bytes of UTF-8 sort as code points do
    const int sign = a.text().compare(b.text());
    return sign < 0 ? -1 : sign > 0;
  }
  if (a.is_sequence() && a.kind() == b.kind()) {
    for (size_t i = 0; i < std::min(a.items().size(), b.items().size()); ++i)
      if (!equal(budget, a.items()[i], b.items()[i])) return order(budget, a.items()[i], b.items()[i], op);
    return a.items().size() < b.items().size() ? -1 : a.items().size() > b.items().size();
  }
  refuse_operands(op, a, b);
}

}  // namespace

Value text_like(const Value& like, Text text) {
  return like.is_markup() ? Value::markup(std::move(text)) : Value::string(std::move(text));
}

Value part_of(const Value& whole, std::string_view part) {
  return text_like(whole, whole.prompt_text().part(part));
}

bool is_true(const Value& value) {
  switch (value.kind()) {
    case Kind::kUndefined:
    case Kind::kNone:
      return false;
    case Kind::kBool:
      return value.as_bool();
    case Kind::kInteger:
      return value.is_big() || value.as_integer() != 0;
    case Kind::kFloat:
      return value.as_float() != 0;
    case Kind::kString:
      return !value.text().empty();
    case Kind::kObject:
      return length_of(value).value_or(1) != 0;
    default:
      return *length_of(value) != 0;
  }
}

Value arithmetic(Budget& budget, Operator op, const Value& a, const Value& b) {
  if (a.is_number() && b.is_number()) {
    if (is_whole(a) && is_whole(b)) return integer_arithmetic(op, a, b);
    return float_arithmetic(op, number_as_double(a), number_as_double(b));
  }
  if (op == Operator::kAdd) {
    if (a.is_string() && b.is_string()) return add_text(budget, a, b);
    if (a.is_sequence() && a.kind() == b.kind()) return add_items(budget, a, b);
  } else if (op == Operator::kMultiply) {
    if ((a.is_string() || a.is_sequence()) && is_whole(b)) return repeat(budget, a, b);
    if ((b.is_string() || b.is_sequence()) && is_whole(a)) return repeat(budget, b, a);
  } else if (op == Operator::kModulo && a.is_string()) {
    return text_like(a, format_percent(budget, a, b));
  }
  refuse_operands(op, a, b);
}

Value negative(const Value& value) {
  if (value.is(Kind::kFloat)) return Value::real(-value.as_float());
  if (is_whole(value)) return from_wide(-need_wide(value));
  if (value.is_undefined()) refuse(value.why());
  refuse("a value of type ", type_name(value), " has no sign");
}

bool equal(Budget& budget, const Value& a, const Value& b) {
  budget.step();
  if (a.kind() != b.kind() || !(a.is_sequence() || a.is_dict())) {
    if (a.is_string() && b.is_string()) budget.bytes(std::min(a.text().size(), b.text().size()) / 8);
    return same_key(a, b);
  }
  if (a.is_sequence()) {
    if (a.items().size() != b.items().size()) return false;
    for (size_t i = 0; i < a.items().size(); ++i)
      if (!equal(budget, a.items()[i], b.items()[i])) return false;
    return true;
  }
  if (a.as_dict().size() != b.as_dict().size()) return false;
  for (const auto& [key, value] : a.as_dict().items()) {
    const Value* other = b.as_dict().find(key);
    if (!other || !equal(budget, value, *other)) return false;
  }
  return true;
}

bool less(Budget& budget, const Value& a, const Value& b) {
  return order(budget, a, b, Operator::kLess) == -1;
}

bool contains(Budget& budget, const Value& container, const Value& item) {
  if (container.is_undefined()) return false;
  if (container.is_string()) {
    if (!item.is_string()) refuse("'in' a text, want a text left of it, not ", type_name(item));
    budget.bytes(container.text().size() / 8);
    return container.text().find(item.text()) != std::string::npos;
  }
  if (container.is_dict()) {
    if (!can_be_key(item)) refuse("a value of type ", type_name(item), " cannot be a key");
    if (!item.is_string()) budget.step(container.as_dict().size());
    return container.as_dict().find(item) != nullptr;
  }
  if (!container.is_sequence() && !container.as<Iterator>())
    refuse("'in' a value of type ", type_name(container), ", want a text, a list or a dict");
  const std::vector<Value> walked =
      container.is_sequence() ? std::vector<Value>() : iterate(budget, container);
  for (const Value& other : container.is_sequence() ? container.items() : walked)
    if (equal(budget, item, other)) return true;
  return false;
}

bool compare(Budget& budget, Operator op, const Value& a, const Value& b) {
  switch (op) {
    case Operator::kEqual:
      return equal(budget, a, b);
    case Operator::kNotEqual:
      return !equal(budget, a, b);
    case Operator::kLess:
      return order(budget, a, b, op) == -1;
    case Operator::kGreater:
      return order(budget, a, b, op) == 1;
    case Operator::kIn:
      return contains(budget, b, a);
    case Operator::kNotIn:
      return !contains(budget, b, a);
    default:
      break;
  }
  const int sign = order(budget, a, b, op);  // 2: not a number
  return sign == 0 || sign == (op == Operator::kLessEqual ? -1 : 1);
}

}  // namespace nanovllm::jinja
