// Python's two ways to fill in a text: '%s is %d' % (...) and '{} is {}'.format(...).
#include <algorithm>
#include <cmath>
#include <cstdio>

#include "tokenizer/jinja_literal.h"
#include "tokenizer/jinja_number.h"
#include "tokenizer/jinja_operators.h"
#include "tokenizer/jinja_print.h"
#include "tokenizer/jinja_string_methods.h"
#include "tokenizer/jinja_text.h"

namespace nanovllm::jinja {
namespace {

constexpr int kMaxPrecision = 300;

// One %-specification: flags, width and precision, and the letter.
struct Specification {
  bool left = false, plus = false, blank = false, zero = false, alternative = false;
  int64_t width = 0;
  int precision = -1;
  char letter = 0;
};

class PercentFormat {
 public:
  PercentFormat(Budget& budget, const Value& format, const Value& arguments)
      : budget_(budget), format_(format), text_(format.text()), arguments_(arguments) {}

  Text run() {
    while (at_ < text_.size()) {
      const size_t plain = std::min(text_.find('%', at_), text_.size()) - at_;
      out_.append_part(format_.prompt_text(), text_.substr(at_, plain));
      at_ += plain;
      if (at_ == text_.size()) break;
      ++at_;
      read_specification();
    }
    const bool all_used = !arguments_.is(Kind::kTuple)
                              ? used_ > 0 || arguments_.is_dict() || arguments_.is(Kind::kList)
                              : used_ == arguments_.items().size();
    if (!all_used && !named_) refuse("not all values were used by the % format");
    budget_.bytes(out_.size());
    return std::move(out_);
  }

 private:
  char peek() const { return at_ < text_.size() ? text_[at_] : 0; }

  int64_t read_number() {
    int64_t number = 0;
    for (; peek() >= '0' && peek() <= '9'; ++at_)
      number = std::min<int64_t>(number * 10 + (peek() - '0'), 1 << 30);
    return number;
  }

  Value next_value() {
    if (!arguments_.is(Kind::kTuple)) {
      if (used_++ > 0) refuse("not enough values for the % format");
      return arguments_;
    }
    if (used_ >= arguments_.items().size()) refuse("not enough values for the % format");
    return arguments_.items()[used_++];
  }

  void read_specification() {
    Specification spec;
    Value value;
    bool has_value = false;
    if (peek() == '(') {
      const size_t end = text_.find(')', at_);
      if (end == text_.npos) refuse("a name in a % format has no end, want )");
      if (!arguments_.is_dict()) refuse("a % format with names, want a dict");
      const Value* found = arguments_.as_dict().find(text_.substr(at_ + 1, end - at_ - 1));
      if (!found)
        refuse("the % format names '", text_.substr(at_ + 1, end - at_ - 1), "', which is not given");
      value = *found;
      has_value = named_ = true;
      at_ = end + 1;
    }
    for (;; ++at_) {
      if (peek() == '-')
        spec.left = true;
      else if (peek() == '+')
        spec.plus = true;
      else if (peek() == ' ')
        spec.blank = true;
      else if (peek() == '0')
        spec.zero = true;
      else if (peek() == '#')
        spec.alternative = true;
      else
        break;
    }
    spec.width = read_number();
    if (peek() == '.') {
      ++at_;
      spec.precision = int(std::min<int64_t>(read_number(), kMaxPrecision));
    }
    spec.letter = peek();
    ++at_;
    if (spec.letter == '%') {
      out_.append_part(format_.prompt_text(), text_.substr(at_ - 1, 1));
      return;
    }
    if (!has_value) value = next_value();
    write(spec, value);
  }

  void write(const Specification& spec, const Value& value) {
    switch (spec.letter) {
      case 's':
      case 'r':
      case 'a':
        return write_text(spec, value);
      case 'c':
        if (!value.is_string() || count_characters(value.text()) != 1)
          refuse("%c of a value of type ", type_name(value), ", want one character");
        return pad(spec, value.prompt_text());
      case 'd':
      case 'i':
      case 'u':
      case 'x':
      case 'X':
      case 'o':
        return write_number(spec, integer(spec, value));
      case 'e':
      case 'E':
      case 'f':
      case 'F':
      case 'g':
      case 'G':
        return write_number(spec, real(spec, value));
      default:
        refuse("the % format has no letter '", std::string_view(&spec.letter, spec.letter != 0), "'");
    }
  }

  void pad(const Specification& spec, const Text& text) {
    out_ += pad_text(budget_, text, spec.width, spec.left ? 'r' : 'l');
  }

  void write_text(const Specification& spec, const Value& value) {
    Text text = spec.letter == 's' ? to_str(budget_, value) : to_repr(budget_, value);
    if (spec.precision >= 0) {
      const Value whole = Value::string(text);
      text = get_slice(budget_, whole, Value::none(), Value::integer(spec.precision), Value::none())
                 .prompt_text();
    }
    pad(spec, format_.is_markup() && !value.is_markup() ? escape_html(text) : text);
  }

  void write_number(const Specification& spec, std::string text) {
    if (text[0] != '-' && (spec.plus || spec.blank)) text.insert(0, 1, spec.plus ? '+' : ' ');
    if (!spec.zero || spec.left) return pad(spec, Text(text, Origin::kTemplate));
    const size_t sign = std::min(text.find_first_not_of("+- "), text.size());
    out_.append(text.substr(0, sign), Origin::kTemplate);
    out_ +=
        pad_text(budget_, Text(text.substr(sign), Origin::kTemplate), spec.width - int64_t(sign), 'l', "0");
  }

  std::string integer(const Specification& spec, const Value& value) {
    if (!value.is_number())
      refuse("%", spec.letter, " of a value of type ", type_name(value), ", want a number");
    const bool decimal = spec.letter == 'd' || spec.letter == 'i' || spec.letter == 'u';
    if (value.is(Kind::kFloat) && (!decimal || !(std::abs(value.as_float()) < 0x1p63)))
      refuse("%", spec.letter, " of ", float_text(value.as_float()), ", want an integer");
    std::string text = value.is(Kind::kFloat) ? std::to_string(int64_t(value.as_float()))
                       : decimal              ? integer_text(value)
                                              : based(spec, need_wide(value));
    const size_t sign = text.starts_with('-');
    const size_t digits = text.size() - sign;
    if (spec.precision > int(digits)) text.insert(sign, size_t(spec.precision) - digits, '0');
    return text;
  }

  static std::string based(const Specification& spec, Wide value) {
    const unsigned base = spec.letter == 'o' ? 8 : 16;
    const bool minus = value < 0;
    std::string text;
    do {
      const int digit = std::abs(int(value % int(base)));
      text += (spec.letter == 'X' ? "0123456789ABCDEF" : "0123456789abcdef")[digit];
      value /= int(base);
    } while (value != 0);
    if (spec.alternative) (text += spec.letter) += '0';
    if (minus) text += '-';
    std::reverse(text.begin(), text.end());
    return text;
  }

  static std::string real(const Specification& spec, const Value& value) {
    if (!value.is_number())
      refuse("%", spec.letter, " of a value of type ", type_name(value), ", want a number");
    const char format[] = {'%', '.', '*', spec.letter, 0};
    char text[700];
    std::snprintf(text, sizeof text, format, spec.precision < 0 ? 6 : spec.precision,
                  number_as_double(value));
    return text;
  }

  Budget& budget_;
  const Value& format_;
  std::string_view text_;
  const Value& arguments_;
  size_t at_ = 0, used_ = 0;
  bool named_ = false;
  Text out_;
};

}  // namespace

Text format_percent(Budget& budget, const Value& format, const Value& arguments) {
  budget.bytes(format.text().size());
  return PercentFormat(budget, format, arguments).run();
}

Text format_braces(Budget& budget, const Text& text, const Arguments& arguments) {
  const std::string_view format = text.str();
  budget.bytes(format.size());
  Text out;
  size_t next = 0;
  for (size_t i = 0; i < format.size(); ++i) {
    const char c = format[i];
    if ((c == '{' || c == '}') && i + 1 < format.size() && format[i + 1] == c) {
      out.append_part(text, format.substr(i, 1));
      ++i;
      continue;
    }
    if (c == '}') refuse("format(): a single } in the text");
    if (c != '{') {
      out.append_part(text, format.substr(i, 1));
      continue;
    }
    const size_t end = format.find('}', i);
    if (end == format.npos) refuse("format(): a single { in the text");
    const std::string_view field = format.substr(i + 1, end - i - 1);
    const bool number = field.size() < 10 && field.find_first_not_of("0123456789") == field.npos;
    if (!number && name_length(field) != field.size())
      refuse("format(): '{", field, "}', want {}, {0} or {name}");
    const Value* value = nullptr;
    if (number) {
      const size_t index = field.empty() ? next++ : size_t(std::stoul(std::string(field)));
      if (index < arguments.positional.size()) value = &arguments.positional[index];
    } else {
      for (const auto& [name, given] : arguments.named)
        if (name == field) value = &given;
    }
    if (!value) refuse("format(): no value for {", field, "}");
    out += to_str(budget, *value);
    i = end;
  }
  return out;
}

}  // namespace nanovllm::jinja
