// json.dumps: Python's spelling of JSON, to the byte.
#include <algorithm>
#include <cmath>
#include <cstdio>

#include "base/unicode.h"
#include "tokenizer/jinja_number.h"
#include "tokenizer/jinja_print.h"

namespace nanovllm::jinja {
namespace {

class JsonWriter {
 public:
  JsonWriter(Budget& budget, const JsonFormat& format) : budget_(budget), format_(format) {}
  Text out;

  // Recursion is bounded by kMaxValueDepth: objects, which may hold themselves, are refused.
  void write(const Value& value, size_t level) {
    budget_.step();
    budget_.bytes(sizeof(Value));
    switch (value.kind()) {
      case Kind::kString:
        return write_string(value.prompt_text());
      case Kind::kList:
      case Kind::kTuple:
        return write_list(value.items(), level);
      case Kind::kDict:
        return write_dict(value.as_dict(), level);
      case Kind::kUndefined:
      case Kind::kObject:
        refuse("a value of type ", type_name(value), " is not JSON, want data (a generator: | list)");
      default:
        out.append(scalar(value), Origin::kTemplate);
    }
  }

 private:
  static std::string scalar(const Value& value) {
    if (value.is_none()) return "null";
    if (value.is(Kind::kBool)) return value.as_bool() ? "true" : "false";
    if (value.is(Kind::kInteger)) return integer_text(value);
    const double number = value.as_float();
    if (std::isnan(number)) return "NaN";
    if (std::isinf(number)) return number < 0 ? "-Infinity" : "Infinity";
    return float_text(number);
  }

  void new_line(size_t level) {
    if (!format_.on_lines) return;
    budget_.bytes(1 + level * format_.indent.size());
    out += "\n";
    for (size_t i = 0; i < level; ++i) out += format_.indent;
  }

  void write_list(const std::vector<Value>& items, size_t level) {
    out += "[";
    for (size_t i = 0; i < items.size(); ++i) {
      if (i > 0) out += format_.item_separator;
      new_line(level + 1);
      write(items[i], level + 1);
    }
    if (!items.empty()) new_line(level);
    out += "]";
  }

  void write_dict(const Dict& dict, size_t level) {
    std::vector<const Dict::Item*> items;
    for (const Dict::Item& item : dict.items()) items.push_back(&item);
    if (format_.sort_keys) {
      const auto text_keys =
          std::all_of(items.begin(), items.end(), [](auto* i) { return i->first.is_string(); });
      const auto numbers =
          std::all_of(items.begin(), items.end(), [](auto* i) { return i->first.is_number(); });
      if (!text_keys && !numbers) refuse("tojson cannot sort keys of different types");
      std::stable_sort(items.begin(), items.end(), [&](auto* a, auto* b) {
        return text_keys ? a->first.text() < b->first.text() : compare_numbers(a->first, b->first) == -1;
      });
    }
    out += "{";
    bool first = true;
    for (const Dict::Item* item : items) {
      if (!std::exchange(first, false)) out += format_.item_separator;
      new_line(level + 1);
      const Value& key = item->first;
      if (key.is_string())
        write_string(key.prompt_text());
      else if (key.is_number() || key.is_none())
        out.append('"' + scalar(key) + '"', Origin::kTemplate);
      else
        refuse("a key of type ", type_name(key), " is not JSON, want text or a number");
      out += format_.key_separator;
      write(item->second, level + 1);
    }
    if (!items.empty()) new_line(level);
    out += "}";
  }

  void escape(unsigned code_unit, Origin origin) {
    char text[16];
    std::snprintf(text, sizeof text, "\\u%04x", code_unit);
    out.append(text, origin);
  }

  void write_string(const Text& text) {
    budget_.bytes(text.size());
    out += "\"";
    for (std::string_view rest = text.str(); !rest.empty();) {
      const Utf8Head head = utf8_head(rest);
      write_character(head.code_point, rest.substr(0, size_t(head.length)),
                      text.origin_at(text.size() - rest.size()));
      rest.remove_prefix(size_t(head.length));
    }
    out += "\"";
  }

  void write_character(char32_t c, std::string_view bytes, Origin origin) {
    constexpr std::string_view kNamed = "\"\\\n\r\t\b\f", kNames = "\"\\nrtbf";
    const size_t named = c < 0x80 ? kNamed.find(char(c)) : kNamed.npos;
    if (named != kNamed.npos) {
      const char escaped[] = {'\\', kNames[named]};
      out.append({escaped, 2}, origin);
    } else if (c < 0x20) {
      escape(c, origin);
    } else if (c < 0x80 || !format_.ensure_ascii) {
      out.append(bytes, origin);
    } else if (c < 0x10000) {
      escape(c, origin);
    } else {
      escape(0xD800 + ((c - 0x10000) >> 10), origin);
      escape(0xDC00 + (c & 0x3FF), origin);
    }
  }

  Budget& budget_;
  const JsonFormat& format_;
};

}  // namespace

Text to_json(Budget& budget, const Value& value, const JsonFormat& format) {
  JsonWriter writer(budget, format);
  writer.write(value, 0);
  return std::move(writer.out);
}

}  // namespace nanovllm::jinja
