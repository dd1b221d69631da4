#include "tokenizer/jinja_number.h"

#include <algorithm>
#include <charconv>
#include <cmath>
#include <cstdlib>
#include <limits>

namespace nanovllm::jinja {
namespace {

constexpr size_t kMaxDigits = 4300;  // of Python's int(), for the same reason: conversion is quadratic
constexpr Wide kWideMax = Wide(~static_cast<unsigned __int128>(0) >> 1);

std::optional<Wide> wide_from_decimal(std::string_view text) {
  const bool negative = text.starts_with('-');
  if (negative) text.remove_prefix(1);
  Wide value = 0;
  for (char c : text) {
    if (value > (kWideMax - (c - '0')) / 10) return std::nullopt;
    value = value * 10 + (c - '0');
  }
  return negative ? -value : value;
}

// Decimal texts without leading zeros.
int compare_decimals(std::string_view a, std::string_view b) {
  const bool minus_a = a.starts_with('-'), minus_b = b.starts_with('-');
  if (minus_a != minus_b) return minus_a ? -1 : 1;
  const int magnitude = a.size() != b.size() ? (a.size() < b.size() ? -1 : 1) : a.compare(b);
  return minus_a ? -magnitude : magnitude;
}

}  // namespace

std::optional<Wide> wide_integer(const Value& value) {
  if (value.is_big()) return wide_from_decimal(value.text());
  if (value.is(Kind::kBool) || value.is(Kind::kInteger)) return value.as_integer();
  return std::nullopt;
}

Wide need_wide(const Value& value) {
  const std::optional<Wide> wide = wide_integer(value);
  if (!wide) refuse("arithmetic on an integer of ", value.text().size(), " digits, want at most 38");
  return *wide;
}

Value from_wide(Wide value) {
  if (value >= std::numeric_limits<int64_t>::min() && value <= std::numeric_limits<int64_t>::max())
    return Value::integer(int64_t(value));
  std::string digits;
  for (Wide rest = value; rest != 0; rest /= 10) digits += char('0' + std::abs(int(rest % 10)));
  if (value < 0) digits += '-';
  std::reverse(digits.begin(), digits.end());
  return Value::big_integer(std::move(digits));
}

Value integer_from_decimal(std::string_view text) {
  const bool negative = text.starts_with('-');
  std::string_view digits = text.substr(negative ? 1 : 0);
  digits.remove_prefix(std::min(digits.find_first_not_of('0'), digits.size()));
  if (digits.size() > kMaxDigits)
    refuse("an integer of ", digits.size(), " digits, want at most ", kMaxDigits);
  const std::string decimal = (negative && !digits.empty() ? "-" : "") + std::string(digits);
  const std::optional<Wide> wide = wide_from_decimal(decimal);
  return wide ? from_wide(*wide) : Value::big_integer(decimal);
}

std::string integer_text(const Value& integer) {
  return integer.is_big() ? integer.text() : std::to_string(integer.as_integer());
}

double number_as_double(const Value& number) {
  if (number.is(Kind::kFloat)) return number.as_float();
  if (number.is_big()) return std::strtod(number.text().c_str(), nullptr);
  return double(number.as_integer());
}

std::string float_text(double value) {
  if (std::isnan(value)) return "nan";
  if (std::isinf(value)) return value < 0 ? "-inf" : "inf";
  char buffer[40];
  const auto end = std::to_chars(buffer, buffer + sizeof buffer, value, std::chars_format::scientific).ptr;
  const std::string_view text(buffer, size_t(end - buffer));  // [-]d[.ddd]e(+|-)dd[d]
  const size_t e = text.find('e');
  const int exponent = std::atoi(std::string(text.substr(e + 1)).c_str());
  if (exponent < -4 || exponent >= 16) return std::string(text);
  std::string digits;
  for (char c : text.substr(0, e))
    if (c >= '0' && c <= '9') digits += c;
  if (exponent < 0) {
    digits.insert(0, size_t(-exponent), '0');
    digits.insert(1, ".");
  } else {
    const size_t whole = size_t(exponent) + 1;
    if (digits.size() < whole + 1) digits.append(whole + 1 - digits.size(), '0');
    digits.insert(whole, ".");
  }
  return (std::signbit(value) ? "-" : "") + digits;
}

int compare_numbers(const Value& a, const Value& b) {
  if (!a.is(Kind::kFloat) && !b.is(Kind::kFloat)) {
    if (a.is_big() || b.is_big()) return compare_decimals(integer_text(a), integer_text(b));
    return a.as_integer() < b.as_integer() ? -1 : a.as_integer() > b.as_integer();
  }
  // Whole numbers beyond 2^53 beside a float: long double holds any int64_t exactly.
  const auto widen = [](const Value& v) {
    return v.is(Kind::kFloat) || v.is_big() ? (long double)(number_as_double(v))
                                            : (long double)(v.as_integer());
  };
  const long double x = widen(a), y = widen(b);
  if (std::isnan(x) || std::isnan(y)) return 2;
  return x < y ? -1 : x > y;
}

}  // namespace nanovllm::jinja
