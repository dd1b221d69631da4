// Filters of any value, and of numbers; and the table of all filters.
#include <algorithm>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <limits>

#include "tokenizer/jinja_filters.h"
#include "tokenizer/jinja_number.h"
#include "tokenizer/jinja_operators.h"
#include "tokenizer/jinja_print.h"
#include "tokenizer/jinja_string_methods.h"
#include "tokenizer/jinja_text.h"

namespace nanovllm::jinja {
namespace {

Value default_value(Machine&, const Value& input, const Arguments& a) {
  const Bound bound("default", a, {"default_value", "boolean"});
  const bool replace = input.is_undefined() || (bound.truth(1, false) && !is_true(input));
  return replace ? bound.get(0, Value::string("")) : input;
}

Value to_json_filter(Machine& machine, const Value& input, const Arguments& a) {
  const Bound bound("tojson", a, {"ensure_ascii", "indent", "separators", "sort_keys"});
  JsonFormat format;
  format.ensure_ascii = bound.truth(0, false);
  format.sort_keys = bound.truth(3, false);
  if (bound.has(1) && !bound[1].is_none()) {
    format.on_lines = true;
    format.item_separator = ",";
    format.indent = bound[1].is_string() ? bound[1].prompt_text()
                                         : pad_text(machine.budget, "", bound.integer(1, 0), 'r');
  }
  if (bound.has(2) && !bound[2].is_none()) {
    if (!bound[2].is_sequence() || bound[2].items().size() != 2 || !bound[2].items()[0].is_string() ||
        !bound[2].items()[1].is_string())
      refuse("the separators of tojson, want a pair of texts");
    format.item_separator = bound[2].items()[0].prompt_text();
    format.key_separator = bound[2].items()[1].prompt_text();
  }
  return Value::string(to_json(machine.budget, input, format));
}

Value attribute(Machine&, const Value& input, const Arguments& a) {
  const Bound bound("attr", a, {"name"}, 1);
  if (input.is_undefined()) refuse(input.why());
  return input.is(Kind::kObject) ? input.as_object().attribute(bound.string(0), input)
                                 : get_method(input, bound.string(0));
}

Value pretty(Machine& machine, const Value& input, const Arguments& a) {
  Bound("pprint", a, {});
  return Value::string(to_repr(machine.budget, input));
}

Value absolute(Machine&, const Value& input, const Arguments& a) {
  Bound("abs", a, {});
  if (!input.is_number()) refuse("abs of a value of type ", type_name(input), ", want a number");
  const bool minus =
      input.is(Kind::kFloat) ? std::signbit(input.as_float()) : compare_numbers(input, Value::integer(0)) < 0;
  const Value negated = negative(input);
  return minus ? negated : negative(negated);
}

std::string without_underscores(std::string_view text) {
  std::string out;
  for (size_t i = 0; i < text.size(); ++i)
    if (text[i] != '_' || i == 0 || i + 1 == text.size() || text[i + 1] == '_') out += text[i];
  return out;
}

std::optional<double> parse_float(std::string_view text) {
  const std::string number = without_underscores(strip(text));
  if (number.empty() || number.find_first_of("xXpP(_") != number.npos) return std::nullopt;
  char* end = nullptr;
  const double value = std::strtod(number.c_str(), &end);
  if (size_t(end - number.c_str()) != number.size()) return std::nullopt;
  return value;
}

std::optional<Value> parse_integer(std::string_view text, int64_t base) {
  std::string number = without_underscores(strip(text));
  const bool minus = number.starts_with('-');
  if (minus || number.starts_with('+')) number.erase(0, 1);
  if (number.size() > 2 && number[0] == '0') {
    const char mark = number[1] | 0x20;
    if ((base == 16 && mark == 'x') || (base == 8 && mark == 'o') || (base == 2 && mark == 'b'))
      number.erase(0, 2);
  }
  if (number.empty()) return std::nullopt;
  Wide value = 0;
  for (char c : number) {
    const int digit = c >= '0' && c <= '9'                     ? c - '0'
                      : (c | 0x20) >= 'a' && (c | 0x20) <= 'z' ? (c | 0x20) - 'a' + 10
                                                               : 99;
    if (digit >= base) return std::nullopt;
    if (base != 10) {
      if (value >> 120 != 0) refuse("int of a text of ", number.size(), " digits, want at most 120 bits");
      value = value * base + digit;
    }
  }
  if (base == 10) return integer_from_decimal((minus ? "-" : "") + number);
  return from_wide(minus ? -value : value);
}

// Python's int(float); nothing for what is not finite. Whole numbers beyond 127 bits are refused.
std::optional<Value> truncate_float(double value) {
  if (!std::isfinite(value)) return std::nullopt;
  if (std::abs(value) >= 0x1p126) refuse("int of ", float_text(value), ", want at most 38 digits");
  return from_wide(Wide(value));
}

Value to_integer(Machine&, const Value& input, const Arguments& a) {
  const Bound bound("int", a, {"default", "base"});
  if (input.is_undefined()) refuse(input.why());
  const int64_t base = bound.integer(1, 10);
  if (base < 2 || base > 36) refuse("int to base ", base, ", want 2 to 36");
  std::optional<Value> result;
  if (input.is_string()) {
    result = parse_integer(input.text(), base);
    if (!result)
      if (const std::optional<double> number = parse_float(input.text())) result = truncate_float(*number);
  } else if (input.is(Kind::kFloat)) {
    result = truncate_float(input.as_float());
  } else if (input.is_number()) {
    result = input.is_big() ? input : Value::integer(input.as_integer());
  }
  return result ? *result : bound.get(0, Value::integer(0));
}

Value to_float(Machine&, const Value& input, const Arguments& a) {
  const Bound bound("float", a, {"default"});
  if (input.is_undefined()) refuse(input.why());
  if (input.is_number()) return Value::real(number_as_double(input));
  const std::optional<double> number = input.is_string() ? parse_float(input.text()) : std::nullopt;
  return number ? Value::real(*number) : bound.get(0, Value::real(0));
}

Value round_number(Machine&, const Value& input, const Arguments& a) {
  const Bound bound("round", a, {"precision", "method"});
  if (!input.is_number()) refuse("round of a value of type ", type_name(input), ", want a number");
  const int64_t precision = bound.integer(0, 0);
  const std::string method = bound.has(1) ? bound.string(1) : "common";
  if (precision < -300 || precision > 300) refuse("round to ", precision, " places, want -300 to 300");
  const double value = number_as_double(input), scale = std::pow(10.0, double(precision));
  if (method == "ceil") return Value::real(std::ceil(value * scale) / scale);
  if (method == "floor") return Value::real(std::floor(value * scale) / scale);
  if (method != "common") refuse("round with the method '", method, "', want common, ceil or floor");
  if (!input.is(Kind::kFloat) && precision >= 0)
    return input.is(Kind::kBool) ? Value::integer(input.as_integer()) : input;
  if (!std::isfinite(value)) return input;
  if (precision < 0) {
    const double rounded = std::nearbyint(value * scale) / scale;
    return input.is(Kind::kFloat) ? Value::real(rounded) : truncate_float(rounded).value_or(input);
  }
  // printf rounds the exact binary value, as Python does; scaling first would round twice.
  char text[700];
  std::snprintf(text, sizeof text, "%.*f", int(precision), value);
  return Value::real(std::strtod(text, nullptr));
}

Value file_size(Machine&, const Value& input, const Arguments& a) {
  const Bound bound("filesizeformat", a, {"binary"});
  const bool binary = bound.truth(0, false);
  if (!input.is_number()) refuse("filesizeformat of a value of type ", type_name(input), ", want a number");
  const double bytes = number_as_double(input), base = binary ? 1024 : 1000;
  if (bytes == 1) return Value::string("1 Byte");
  char text[400];
  std::snprintf(text, sizeof text, "%.0f Bytes", std::trunc(bytes));
  constexpr const char* kUnits[] = {"kB", "MB", "GB", "TB", "PB", "EB", "ZB", "YB"};
  constexpr const char* kBinaryUnits[] = {"KiB", "MiB", "GiB", "TiB", "PiB", "EiB", "ZiB", "YiB"};
  double unit = base;
  for (int i = 0; i < 8 && bytes >= unit; ++i, unit *= base)
    std::snprintf(text, sizeof text, "%.1f %s", bytes / unit, binary ? kBinaryUnits[i] : kUnits[i]);
  return Value::string(text);
}

constexpr NamedFilter kFilters[] = {
    {"default", default_value},    {"d", default_value}, {"tojson", to_json_filter},
    {"attr", attribute},           {"pprint", pretty},   {"abs", absolute},
    {"int", to_integer},           {"float", to_float},  {"round", round_number},
    {"filesizeformat", file_size},
};

}  // namespace

std::span<const NamedFilter> value_filters() { return kFilters; }

FilterFunction find_filter(std::string_view name) {
  for (const auto& filters : {text_filters(), value_filters(), sequence_filters(), select_filters()})
    for (const NamedFilter& filter : filters)
      if (filter.name == name) return filter.function;
  return nullptr;
}

}  // namespace nanovllm::jinja
