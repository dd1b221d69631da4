#include "tokenizer/jinja_string_methods.h"

#include <algorithm>
#include <limits>

#include "base/unicode.h"
#include "tokenizer/jinja_operators.h"
#include "tokenizer/jinja_print.h"
#include "tokenizer/jinja_text.h"

namespace nanovllm::jinja {
namespace {

using Pieces = std::vector<std::string_view>;

Value text_list(Budget& budget, const Value& self, const Pieces& pieces) {
  budget.items(pieces.size());
  std::vector<Value> items;
  items.reserve(pieces.size());
  for (std::string_view piece : pieces) items.push_back(part_of(self, piece));
  return Value::list(std::move(items));
}

Pieces split_at(std::string_view text, std::string_view separator, int64_t limit) {
  Pieces pieces;
  size_t at;
  while (limit-- != 0 && (at = text.find(separator)) != text.npos) {
    pieces.push_back(text.substr(0, at));
    text.remove_prefix(at + separator.size());
  }
  pieces.push_back(text);
  return pieces;
}

Pieces split_at_end(std::string_view text, std::string_view separator, int64_t limit) {
  Pieces pieces;
  size_t at;
  while (limit-- != 0 && (at = text.rfind(separator)) != text.npos) {
    pieces.push_back(text.substr(at + separator.size()));
    text = text.substr(0, at);
  }
  pieces.push_back(text);
  std::reverse(pieces.begin(), pieces.end());
  return pieces;
}

// Bytes up to the first white space.
size_t word_length(std::string_view text) {
  size_t at = 0;
  while (at < text.size()) {
    const Utf8Head head = utf8_head(text.substr(at));
    if (is_space(head.code_point)) break;
    at += size_t(head.length);
  }
  return at;
}

Pieces split_words(std::string_view text, int64_t limit) {
  Pieces pieces;
  for (text = strip(text, Ends::kLeft); !text.empty(); text = strip(text, Ends::kLeft)) {
    if (limit-- == 0) {
      pieces.push_back(strip(text, Ends::kRight));
      break;
    }
    const size_t length = word_length(text);
    pieces.push_back(text.substr(0, length));
    text.remove_prefix(length);
  }
  return pieces;
}

Pieces split_words_at_end(std::string_view text, int64_t limit) {
  Pieces words = split_words(text, -1);
  if (limit < 0 || words.size() <= size_t(limit)) return words;
  const size_t first = words.size() - size_t(limit);
  const std::string_view last = words[first - 1];  // the end of what stays whole, blanks before it included
  Pieces pieces{text.substr(0, size_t(last.data() + last.size() - text.data()))};
  pieces.insert(pieces.end(), words.begin() + std::ptrdiff_t(first), words.end());
  return pieces;
}

Value split(Machine& machine, const Value& self, const Arguments& a) {
  const Bound bound("split()", a, {"sep", "maxsplit"});
  const int64_t limit = bound.integer(1, -1);
  machine.budget.bytes(self.text().size());
  if (!bound.has(0) || bound[0].is_none())
    return text_list(machine.budget, self, split_words(self.text(), limit));
  if (bound.string(0).empty()) refuse("split() by an empty text");
  return text_list(machine.budget, self, split_at(self.text(), bound.string(0), limit));
}

Value rsplit(Machine& machine, const Value& self, const Arguments& a) {
  const Bound bound("rsplit()", a, {"sep", "maxsplit"});
  const int64_t limit = bound.integer(1, -1);
  machine.budget.bytes(self.text().size());
  if (!bound.has(0) || bound[0].is_none())
    return text_list(machine.budget, self, split_words_at_end(self.text(), limit));
  if (bound.string(0).empty()) refuse("rsplit() by an empty text");
  return text_list(machine.budget, self, split_at_end(self.text(), bound.string(0), limit));
}

Value splitlines(Machine& machine, const Value& self, const Arguments& a) {
  const Bound bound("splitlines()", a, {"keepends"});
  Pieces lines;
  machine.budget.bytes(self.text().size());
  for (std::string_view rest = self.text(); !rest.empty();) {
    size_t end = 0, length = 0;
    while (end < rest.size() && length == 0) {
      const Utf8Head head = utf8_head(rest.substr(end));
      const char32_t c = head.code_point;
      if (rest.substr(end).starts_with("\r\n"))
        length = 2;
      else if ((c >= 10 && c <= 13) || (c >= 28 && c <= 30) || c == 0x85 || c == 0x2028 || c == 0x2029)
        length = size_t(head.length);
      else
        end += size_t(head.length);
    }
    lines.push_back(rest.substr(0, bound.truth(0, false) ? end + length : end));
    rest.remove_prefix(end + length);
  }
  return text_list(machine.budget, self, lines);
}

// What stands before, at and behind the separator.
Value cut(const Value& self, size_t at, size_t length) {
  const std::string_view text = self.text();
  return Value::tuple({part_of(self, text.substr(0, at)), part_of(self, text.substr(at, length)),
                       part_of(self, text.substr(at + length))});
}

Value partition(Machine&, const Value& self, const Arguments& a) {
  const Bound bound("partition()", a, {"sep"}, 1);
  if (bound.string(0).empty()) refuse("partition() by an empty text");
  const size_t at = self.text().find(bound.string(0));
  if (at == std::string::npos) return Value::tuple({self, text_like(self, ""), text_like(self, "")});
  return cut(self, at, bound.string(0).size());
}

Value rpartition(Machine&, const Value& self, const Arguments& a) {
  const Bound bound("rpartition()", a, {"sep"}, 1);
  if (bound.string(0).empty()) refuse("rpartition() by an empty text");
  const size_t at = self.text().rfind(bound.string(0));
  if (at == std::string::npos) return Value::tuple({text_like(self, ""), text_like(self, ""), self});
  return cut(self, at, bound.string(0).size());
}

template <Ends kEnds>
Value strip_method(Machine& machine, const Value& self, const Arguments& a) {
  const Bound bound("strip()", a, {"chars"});
  machine.budget.bytes(self.text().size());
  std::optional<std::string_view> any_of;
  if (bound.has(0) && !bound[0].is_none()) any_of = bound.string(0);
  return part_of(self, strip(self.text(), kEnds, any_of));
}

bool starts(std::string_view text, std::string_view part) { return text.starts_with(part); }
bool ends(std::string_view text, std::string_view part) { return text.ends_with(part); }

template <bool (*kHas)(std::string_view, std::string_view)>
Value has_affix(Machine&, const Value& self, const Arguments& a) {
  const Bound bound(kHas == starts ? "startswith()" : "endswith()", a, {"affix"}, 1);
  if (!bound[0].is(Kind::kTuple)) return Value::boolean(kHas(self.text(), bound.string(0)));
  for (const Value& affix : bound[0].items()) {
    if (!affix.is_string())
      refuse("startswith() or endswith() of a tuple that holds ", type_name(affix), ", want texts");
    if (kHas(self.text(), affix.text())) return Value::boolean(true);
  }
  return Value::boolean(false);
}

Value replace(Machine& machine, const Value& self, const Arguments& a) {
  const Bound bound("replace()", a, {"old", "new", "count"}, 2);
  return text_like(self, replace_text(machine.budget, self.prompt_text(), bound.string(0), bound.text(1),
                                      bound.integer(2, -1)));
}

template <std::string (*kMap)(std::string_view)>
Value map_text(Machine& machine, const Value& self, const Arguments& a) {
  Bound("the method", a, {});
  machine.budget.bytes(2 * self.text().size());
  return text_like(self, self.prompt_text().changed_to(kMap(self.text())));
}

Value join(Machine& machine, const Value& self, const Arguments& a) {
  const Bound bound("join()", a, {"iterable"}, 1);
  Text text;
  bool first = true;
  for (const Value& item : iterate(machine.budget, bound[0])) {
    if (!item.is_string()) refuse("join() of a value of type ", type_name(item), ", want texts");
    machine.budget.bytes(self.text().size() + item.text().size());
    if (!std::exchange(first, false)) text += self.prompt_text();
    text += self.is_markup() && !item.is_markup() ? escape_html(item.prompt_text()) : item.prompt_text();
  }
  return text_like(self, std::move(text));
}

// Where part stands in the text, in characters; -1 if it does not.
int64_t find_text(Machine& machine, const Value& self, const std::string& part, bool from_end) {
  machine.budget.bytes(self.text().size() / 8);
  const size_t at = from_end ? self.text().rfind(part) : self.text().find(part);
  return at == std::string::npos ? -1
                                 : int64_t(count_characters(std::string_view(self.text()).substr(0, at)));
}

template <bool kFromEnd, bool kMustBe>
Value find(Machine& machine, const Value& self, const Arguments& a) {
  const Bound bound("find()", a, {"sub"}, 1);
  const int64_t at = find_text(machine, self, bound.string(0), kFromEnd);
  if (kMustBe && at < 0) refuse("index(): the text does not hold that part");
  return Value::integer(at);
}

Value count(Machine& machine, const Value& self, const Arguments& a) {
  const Bound bound("count()", a, {"sub"}, 1);
  machine.budget.bytes(self.text().size() / 8);
  if (bound.string(0).empty()) return Value::integer(int64_t(count_characters(self.text())) + 1);
  return Value::integer(int64_t(split_at(self.text(), bound.string(0), -1).size()) - 1);
}

// Whether the text is not empty and all its characters are such.
template <class F>
bool all(const Value& text, F&& f) {
  for (std::string_view rest = text.text(); !rest.empty();) {
    const Utf8Head head = utf8_head(rest);
    if (!f(head.code_point)) return false;
    rest.remove_prefix(size_t(head.length));
  }
  return !text.text().empty();
}

template <bool kLetters, bool kNumbers>
Value is_all(Machine& machine, const Value& self, const Arguments& a) {
  Bound("the method", a, {});
  machine.budget.bytes(self.text().size() / 8);
  return Value::boolean(all(self, [](char32_t c) {
    return (kLetters && is_letter(c)) || (kNumbers && is_number_character(c)) ||
           (!kLetters && !kNumbers && is_space(c));
  }));
}

template <bool kUpper>
Value is_case(Machine& machine, const Value& self, const Arguments& a) {
  Bound("the method", a, {});
  machine.budget.bytes(2 * self.text().size());
  const std::string upper = to_upper(self.text()), lower = to_lower(self.text());
  return Value::boolean(upper != lower && self.text() == (kUpper ? upper : lower));
}

template <bool kPrefix>
Value remove_affix(Machine& machine, const Value& self, const Arguments& a) {
  const Bound bound(kPrefix ? "removeprefix()" : "removesuffix()", a, {"affix"}, 1);
  machine.budget.bytes(self.text().size());
  std::string_view text = self.text();
  if (kPrefix && text.starts_with(bound.string(0))) text.remove_prefix(bound.string(0).size());
  if (!kPrefix && text.ends_with(bound.string(0))) text.remove_suffix(bound.string(0).size());
  return part_of(self, text);
}

template <char kSide>
Value pad(Machine& machine, const Value& self, const Arguments& a) {
  const Bound bound("the method", a, {"width", "fillchar"}, 1);
  const Text fill = bound.has(1) ? bound.text(1) : " ";
  if (count_characters(fill.str()) != 1)
    refuse("the text to pad with has ", count_characters(fill.str()), " characters, want 1");
  return text_like(self, pad_text(machine.budget, self.prompt_text(), bound.integer(0, 0), kSide, fill));
}

Value zfill(Machine& machine, const Value& self, const Arguments& a) {
  const Bound bound("zfill()", a, {"width"}, 1);
  const std::string_view text = self.text();
  const size_t sign = text.starts_with('-') || text.starts_with('+');
  Text out = self.prompt_text().part(text.substr(0, sign));
  out += pad_text(machine.budget, self.prompt_text().part(text.substr(sign)),
                  bound.integer(0, 0) - int64_t(sign), 'l', "0");
  return text_like(self, std::move(out));
}

Value encode(Machine& machine, const Value& self, const Arguments& a) {
  Bound("encode()", a, {"encoding"});
  std::string text = "b'";
  machine.budget.bytes(4 * self.text().size());
  for (char byte : self.text()) {
    const std::string one =
        to_repr(machine.budget, Value::string({std::string(1, byte & 0x7F), Origin::kMessage})).str();
    constexpr char kHex[] = "0123456789abcdef";
    if (byte & 0x80)
      (text += "\\x") += {kHex[(byte >> 4) & 15], kHex[byte & 15]};
    else
      text += one.substr(1, one.size() - 2);
  }
  return Value::object(std::make_shared<Iterator>(
      Iterator::kView, "bytes", Text(text + "'", self.prompt_text().worst_origin()), std::vector<Value>{}));
}

Value format(Machine& machine, const Value& self, const Arguments& a) {
  return text_like(self, format_braces(machine.budget, self.prompt_text(), a));
}

struct Method {
  std::string_view name;
  MethodFunction function;
};
constexpr Method kMethods[] = {
    {"split", split},
    {"strip", strip_method<Ends::kBoth>},
    {"lstrip", strip_method<Ends::kLeft>},
    {"rstrip", strip_method<Ends::kRight>},
    {"startswith", has_affix<starts>},
    {"endswith", has_affix<ends>},
    {"replace", replace},
    {"upper", map_text<to_upper>},
    {"lower", map_text<to_lower>},
    {"capitalize", map_text<capitalize>},
    {"title", map_text<title_words>},
    {"join", join},
    {"format", format},
    {"rsplit", rsplit},
    {"splitlines", splitlines},
    {"partition", partition},
    {"rpartition", rpartition},
    {"find", find<false, false>},
    {"rfind", find<true, false>},
    {"index", find<false, true>},
    {"rindex", find<true, true>},
    {"count", count},
    {"isalpha", is_all<true, false>},
    {"isdigit", is_all<false, true>},
    {"isdecimal", is_all<false, true>},
    {"isnumeric", is_all<false, true>},
    {"isalnum", is_all<true, true>},
    {"isspace", is_all<false, false>},
    {"isupper", is_case<true>},
    {"islower", is_case<false>},
    {"removeprefix", remove_affix<true>},
    {"removesuffix", remove_affix<false>},
    {"ljust", pad<'r'>},
    {"rjust", pad<'l'>},
    {"center", pad<'c'>},
    {"zfill", zfill},
    {"encode", encode},
};

}  // namespace

MethodFunction find_string_method(std::string_view name) {
  for (const Method& method : kMethods)
    if (method.name == name) return method.function;
  return nullptr;
}

Text replace_text(Budget& budget, const Text& text, std::string_view from, const Text& to, int64_t count) {
  Text out;
  budget.bytes(text.size());
  if (from.empty()) {  // between all characters
    for (std::string_view character : characters(text.str())) {
      if (count-- != 0) {
        budget.bytes(to.size());
        out += to;
      } else {
        count = 0;
      }
      out.append_part(text, character);
    }
    if (count != 0) out += to;
    return out;
  }
  bool first = true;
  for (std::string_view piece : split_at(text.str(), from, count)) {
    budget.bytes(to.size());
    if (!std::exchange(first, false)) out += to;
    out.append_part(text, piece);
  }
  return out;
}

Text pad_text(Budget& budget, const Text& text, int64_t width, char side, const Text& fill) {
  budget.bytes(text.size());
  const int64_t missing = width - int64_t(count_characters(text.str()));
  if (missing <= 0) return text;
  budget.bytes(size_t(std::min<int64_t>(missing, Budget::kMaxBytes)) * fill.size());
  const int64_t before = side == 'l'   ? missing
                         : side == 'r' ? 0
                                       : missing / 2 + (missing & width & 1);  // as CPython
  Text out;
  const auto append_fill = [&](int64_t count) {
    for (int64_t i = 0; i < count; ++i) out += fill;
  };
  append_fill(before);
  out += text;
  append_fill(missing - before);
  return out;
}

}  // namespace nanovllm::jinja
