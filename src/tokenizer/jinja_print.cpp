#include "tokenizer/jinja_print.h"

#include <cstdio>

#include "base/unicode.h"
#include "tokenizer/jinja_number.h"
#include "tokenizer/jinja_text.h"

namespace nanovllm::jinja {
namespace {

// Namespaces may hold each other in circles, so depth is counted here too.
constexpr int kMaxReprDepth = 2 * kMaxValueDepth;

class Printer {
 public:
  explicit Printer(Budget& budget) : budget_(budget) {}
  Text out;

  void repr(const Value& value) {
    budget_.step();
    budget_.bytes(sizeof(Value));
    if (value.is_string()) return repr_string(value);
    if (value.is_sequence()) return repr_items(value);
    if (value.is_dict()) return repr_dict(value.as_dict());
    if (const Namespace* ns = value.as<Namespace>()) {
      out += "<Namespace ";
      repr_dict(ns->items);
      out += ">";
      return;
    }
    if (const Iterator* row = value.as<Iterator>();
        row && row->form == Iterator::kView && row->text.empty()) {
      out.append(row->type + "([", Origin::kTemplate);
      for (size_t i = 0; i < row->values.size(); ++i) {
        if (i > 0) out += ", ";
        repr(row->values[i]);
      }
      out += "])";
      return;
    }
    if (value.is_undefined()) {
      out += "Undefined";
      return;
    }
    scalar(value);
  }

  void scalar(const Value& value) {
    switch (value.kind()) {
      case Kind::kNone:
        out += "None";
        break;
      case Kind::kBool:
        out += value.as_bool() ? "True" : "False";
        break;
      case Kind::kInteger:
        out.append(integer_text(value), Origin::kTemplate);
        break;
      case Kind::kFloat:
        out.append(float_text(value.as_float()), Origin::kTemplate);
        break;
      default:
        out += value.as_object().repr();
    }
  }

 private:
  struct Level {
    explicit Level(Printer& printer) : printer(printer) {
      if (++printer.depth_ > kMaxReprDepth)
        refuse("a value to print nests deeper than ", kMaxReprDepth, " levels");
    }
    ~Level() { --printer.depth_; }
    Printer& printer;
  };

  void repr_items(const Value& value) {
    const Level level(*this);
    const bool tuple = value.is(Kind::kTuple);
    const std::vector<Value>& items = value.items();
    out += tuple ? "(" : "[";
    for (size_t i = 0; i < items.size(); ++i) {
      if (i > 0) out += ", ";
      repr(items[i]);
    }
    if (tuple && items.size() == 1) out += ",";
    out += tuple ? ")" : "]";
  }

  void repr_dict(const Dict& dict) {
    const Level level(*this);
    out += "{";
    bool first = true;
    for (const auto& [key, value] : dict.items()) {
      if (!std::exchange(first, false)) out += ", ";
      repr(key);
      out += ": ";
      repr(value);
    }
    out += "}";
  }

  void repr_string(const Value& value) {
    const std::string& text = value.text();
    budget_.bytes(text.size());
    if (value.is_markup()) out += "Markup(";
    const char quote = text.find('\'') != text.npos && text.find('"') == text.npos ? '"' : '\'';
    out.append(quote, Origin::kTemplate);
    for (std::string_view rest = text; !rest.empty();) {
      const Utf8Head head = utf8_head(rest);
      const Origin origin = value.prompt_text().origin_at(text.size() - rest.size());
      repr_character(head.code_point, rest.substr(0, size_t(head.length)), quote, origin);
      rest.remove_prefix(size_t(head.length));
    }
    out.append(quote, Origin::kTemplate);
    if (value.is_markup()) out += ")";
  }

  void repr_character(char32_t c, std::string_view bytes, char quote, Origin origin) {
    if (c == char32_t(quote) || c == '\\') out.append('\\', origin);
    if (c == '\n')
      out.append("\\n", origin);
    else if (c == '\t')
      out.append("\\t", origin);
    else if (c == '\r')
      out.append("\\r", origin);
    else if (c >= ' ' && c < 0x7F)
      out.append(char(c), origin);
    else if (is_printable(c))
      out.append(bytes, origin);
    else {
      char escape[12];
      std::snprintf(escape, sizeof escape,
                    c < 0x100     ? "\\x%02x"
                    : c < 0x10000 ? "\\u%04x"
                                  : "\\U%08x",
                    unsigned(c));
      out.append(escape, origin);
    }
  }

  Budget& budget_;
  int depth_ = 0;
};

}  // namespace

Text to_str(Budget& budget, const Value& value) {
  if (value.is_undefined()) return {};
  if (value.is_string()) {
    budget.bytes(value.text().size());
    return value.prompt_text();
  }
  Printer printer(budget);
  printer.repr(value);
  return std::move(printer.out);
}

Text to_repr(Budget& budget, const Value& value) {
  Printer printer(budget);
  printer.repr(value);
  return std::move(printer.out);
}

}  // namespace nanovllm::jinja
