// Filters that work on the text of a value, whatever it is.
#include <algorithm>

#include "base/unicode.h"
#include "tokenizer/jinja_filters.h"
#include "tokenizer/jinja_operators.h"
#include "tokenizer/jinja_print.h"
#include "tokenizer/jinja_string_methods.h"
#include "tokenizer/jinja_text.h"

namespace nanovllm::jinja {
namespace {

// A text stays what it is, markup too; anything else becomes its str().
Value soft_text(Machine& machine, const Value& value) {
  return value.is_string() ? value : Value::string(to_str(machine.budget, value));
}

Value string(Machine& machine, const Value& input, const Arguments& a) {
  Bound("string", a, {});
  return soft_text(machine, input);
}

Value safe(Machine& machine, const Value& input, const Arguments& a) {
  Bound("safe", a, {});
  return Value::markup(to_str(machine.budget, input));
}

Value escape(Machine& machine, const Value& input, const Arguments& a) {
  Bound("escape", a, {});
  return input.is_markup() ? input : Value::markup(escape_html(to_str(machine.budget, input)));
}

Value force_escape(Machine& machine, const Value& input, const Arguments& a) {
  Bound("forceescape", a, {});
  return Value::markup(escape_html(to_str(machine.budget, input)));
}

template <std::string (*kMap)(std::string_view)>
Value map_text(Machine& machine, const Value& input, const Arguments& a) {
  Bound("the filter", a, {});
  const Value text = soft_text(machine, input);
  machine.budget.bytes(2 * text.text().size());
  return text_like(text, text.prompt_text().changed_to(kMap(text.text())));
}

// Unlike the method title, only blanks, hyphens and opening brackets begin a word.
Value title(Machine& machine, const Value& input, const Arguments& a) {
  Bound("title", a, {});
  const Text text = to_str(machine.budget, input);
  machine.budget.bytes(text.size());
  std::string out, rest_of_word;
  bool at_start = true;
  const auto flush = [&] { out += to_lower(std::exchange(rest_of_word, {})); };
  for (std::string_view character : characters(text.str())) {
    const char32_t c = utf8_head(character).code_point;
    if (is_space(c) || c == '-' || c == '(' || c == '{' || c == '[' || c == '<') {
      flush();
      out += character;
      at_start = true;
    } else if (std::exchange(at_start, false)) {
      out += to_upper(character);
    } else {
      rest_of_word += character;
    }
  }
  flush();
  return Value::string(text.changed_to(std::move(out)));
}

Value trim(Machine& machine, const Value& input, const Arguments& a) {
  const Bound bound("trim", a, {"chars"});
  const Value text = soft_text(machine, input);
  std::optional<std::string_view> any_of;
  if (bound.has(0) && !bound[0].is_none()) any_of = bound.string(0);
  return part_of(text, strip(text.text(), Ends::kBoth, any_of));
}

Value replace(Machine& machine, const Value& input, const Arguments& a) {
  const Bound bound("replace", a, {"old", "new", "count"}, 2);
  const Text text = to_str(machine.budget, input), from = to_str(machine.budget, bound[0]);
  const Text to = to_str(machine.budget, bound[1]);
  const int64_t count = bound.has(2) && !bound[2].is_none() ? bound.integer(2, -1) : -1;
  return Value::string(replace_text(machine.budget, text, from.str(), to, count));
}

// Lines after the first are indented; blank ones only if asked.
Value indent(Machine& machine, const Value& input, const Arguments& a) {
  const Bound bound("indent", a, {"width", "first", "blank"});
  Text by;
  if (bound.has(0) && bound[0].is_string())
    by = bound[0].prompt_text();
  else
    by = pad_text(machine.budget, "", bound.integer(0, 4), 'r');
  if (input.is_undefined()) refuse(input.why());
  if (!input.is_string()) refuse("indent of a value of type ", type_name(input), ", want a text");
  Text out = bound.truth(1, false) ? by : "";
  bool first = true;
  for (std::string_view rest = input.text();;) {
    const size_t end = std::min(rest.find('\n'), rest.size());
    const std::string_view line = rest.substr(0, end);
    machine.budget.bytes(by.size() + end);
    if (!std::exchange(first, false)) {
      out.append_part(input.prompt_text(), {line.data() - 1, 1});  // the line end
      if (!line.empty() || bound.truth(2, false)) out += by;
    }
    out.append_part(input.prompt_text(), line);
    if (end == rest.size()) break;
    rest.remove_prefix(end + 1);
  }
  return text_like(input, std::move(out));
}

Value center(Machine& machine, const Value& input, const Arguments& a) {
  const Bound bound("center", a, {"width"});
  const Value text = soft_text(machine, input);
  return text_like(text, pad_text(machine.budget, text.prompt_text(), bound.integer(0, 80), 'c'));
}

Value truncate(Machine&, const Value& input, const Arguments& a) {
  const Bound bound("truncate", a, {"length", "killwords", "end", "leeway"});
  const Text end = bound.has(2) ? bound.text(2) : "...";
  const int64_t length = bound.integer(0, 255),
                leeway = bound.has(3) && !bound[3].is_none() ? bound.integer(3, 5) : 5;
  const int64_t kept = length - int64_t(count_characters(end.str()));
  if (kept < 0 || leeway < 0)
    refuse("truncate to ", length, " characters, want at least those of '", end.str(), "'");
  if (int64_t(length_of(input).value_or(size_t(1) << 40)) - leeway <= length) return input;
  if (!input.is_string()) refuse("truncate of a value of type ", type_name(input), ", want a text");
  const std::vector<std::string_view> all = characters(input.text());
  size_t length_kept = 0;
  for (int64_t i = 0; i < kept; ++i) length_kept += all[size_t(i)].size();
  std::string_view start = std::string_view(input.text()).substr(0, length_kept);
  if (!bound.truth(1, false)) start = start.substr(0, start.rfind(' '));
  Text out = input.prompt_text().part(start);
  out += end;
  return Value::string(std::move(out));
}

Value word_count(Machine& machine, const Value& input, const Arguments& a) {
  Bound("wordcount", a, {});
  int64_t words = 0;
  bool inside = false;
  const Text text = to_str(machine.budget, input);
  for (std::string_view character : characters(text.str())) {
    const char32_t c = utf8_head(character).code_point;
    const bool word = c == '_' || is_letter(c) || is_number_character(c);
    words += word && !inside;
    inside = word;
  }
  return Value::integer(words);
}

Text quote_url(const Text& text, bool keep_slash) {
  constexpr char kHex[] = "0123456789ABCDEF";
  std::string out;
  for (char c : text.str()) {
    const bool plain = (c >= '0' && c <= '9') || (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') ||
                       c == '_' || c == '.' || c == '-' || c == '~' || (c == '/' && keep_slash);
    if (plain)
      out += c;
    else
      (out += '%') += {kHex[(c >> 4) & 15], kHex[c & 15]};
  }
  return {std::move(out), text.worst_origin()};
}

Value url_encode(Machine& machine, const Value& input, const Arguments& a) {
  Bound("urlencode", a, {});
  machine.budget.bytes(input.is_string() ? 3 * input.text().size() : 0);
  if (!input.is_dict() && !input.is_sequence())
    return Value::string(quote_url(to_str(machine.budget, input), true));
  Text out;
  const auto append = [&](const Value& key, const Value& value) {
    if (!out.empty()) out += "&";
    out += quote_url(to_str(machine.budget, key), false);
    out += "=";
    out += quote_url(to_str(machine.budget, value), false);
  };
  if (input.is_dict()) {
    for (const auto& [key, value] : input.as_dict().items()) append(key, value);
    return Value::string(std::move(out));
  }
  for (const Value& pair : input.items()) {
    const std::vector<Value> parts = iterate(machine.budget, pair);
    if (parts.size() != 2) refuse("urlencode of a row of ", parts.size(), " values, want pairs");
    append(parts[0], parts[1]);
  }
  return Value::string(std::move(out));
}

Value xml_attributes(Machine& machine, const Value& input, const Arguments& a) {
  const Bound bound("xmlattr", a, {"autospace"});
  if (!input.is_dict()) refuse("xmlattr of a value of type ", type_name(input), ", want a dict");
  Text out;
  for (const auto& [key, value] : input.as_dict().items()) {
    if (value.is_none() || value.is_undefined()) continue;
    const Text name = to_str(machine.budget, key);
    if (name.str().find_first_of(" \t\n\r\f/>=") != std::string::npos)
      refuse("xmlattr: '", name.str(), "' is no name of an attribute");
    if (!out.empty() || bound.truth(0, true)) out += " ";
    out += escape_html(name);
    out += "=\"";
    out += escape_html(to_str(machine.budget, value));
    out += "\"";
  }
  return machine.autoescape ? Value::markup(std::move(out)) : Value::string(std::move(out));
}

// '%s-%s' | format('a', 1), or with names.
Value format(Machine& machine, const Value& input, const Arguments& a) {
  if (!a.named.empty() && !a.positional.empty())
    refuse("format takes arguments by position or by name, not both");
  Value arguments = Value::tuple(a.positional);
  if (!a.named.empty()) {
    Dict names;
    for (const auto& [name, value] : a.named) names.set(name, value);
    arguments = Value::dict(std::move(names));
  }
  const Value text = soft_text(machine, input);
  return text_like(text, format_percent(machine.budget, text, arguments));
}

constexpr NamedFilter kFilters[] = {
    {"string", string},
    {"safe", safe},
    {"escape", escape},
    {"e", escape},
    {"forceescape", force_escape},
    {"upper", map_text<to_upper>},
    {"lower", map_text<to_lower>},
    {"capitalize", map_text<capitalize>},
    {"title", title},
    {"trim", trim},
    {"replace", replace},
    {"indent", indent},
    {"center", center},
    {"truncate", truncate},
    {"wordcount", word_count},
    {"urlencode", url_encode},
    {"xmlattr", xml_attributes},
    {"format", format},
};

}  // namespace

std::span<const NamedFilter> text_filters() { return kFilters; }

}  // namespace nanovllm::jinja
