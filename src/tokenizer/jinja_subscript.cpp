// Walking, measuring and indexing values.
#include <algorithm>
#include <limits>

#include "tokenizer/jinja_number.h"
#include "tokenizer/jinja_operators.h"
#include "tokenizer/jinja_text.h"

namespace nanovllm::jinja {
namespace {

// One end of a slice, clipped to 64 bits. Nothing if it is no index; none gives the fallback.
std::optional<int64_t> slice_part(const Value& value, int64_t fallback) {
  if (value.is_none()) return fallback;
  if (value.is(Kind::kFloat) || !value.is_number()) return std::nullopt;
  const std::optional<Wide> wide = wide_integer(value);
  if (!wide)
    return value.text().starts_with('-') ? -std::numeric_limits<int64_t>::max()
                                         : std::numeric_limits<int64_t>::max();
  return int64_t(
      std::clamp<Wide>(*wide, -std::numeric_limits<int64_t>::max(), std::numeric_limits<int64_t>::max()));
}

// The indices that begin:end:step takes of a row of this size, as Python's slice.indices.
std::optional<std::vector<size_t>> slice_indices(int64_t size, const Value& begin, const Value& end,
                                                 const Value& step) {
  const std::optional<int64_t> by = slice_part(step, 1);
  if (!by) return std::nullopt;
  if (*by == 0) refuse("the step of a slice is 0");
  const int64_t lowest = *by < 0 ? -1 : 0, highest = *by < 0 ? size - 1 : size;
  const auto clip = [&](int64_t i) { return std::clamp(i < 0 ? i + size : i, lowest, highest); };
  std::optional<int64_t> from = slice_part(begin, 0), to = slice_part(end, 0);
  if (!from || !to) return std::nullopt;
  from = begin.is_none() ? (*by < 0 ? highest : lowest) : clip(*from);
  to = end.is_none() ? (*by < 0 ? lowest : highest) : clip(*to);
  std::vector<size_t> indices;
  if (*by > 0) {
    for (int64_t i = *from; i<*to; i = *by> * to - i ? *to : i + *by) indices.push_back(size_t(i));
  } else {
    for (int64_t i = *from; i > *to; i = *by < *to - i ? *to : i + *by) indices.push_back(size_t(i));
  }
  return indices;
}

// The position that an index means in a row of this size, or nothing.
std::optional<size_t> position(const Value& index, size_t size) {
  if (index.is_big() || !(index.is(Kind::kInteger) || index.is(Kind::kBool))) return std::nullopt;
  const int64_t i = index.as_integer() < 0 ? index.as_integer() + int64_t(size) : index.as_integer();
  if (i < 0 || i >= int64_t(size)) return std::nullopt;
  return size_t(i);
}

// The character at that position, without decoding more than is needed.
Value character_at(const Value& text, const Value& index) {
  const auto at = position(index, count_characters(text.text()));
  if (!at) return Value();
  return part_of(text, characters(text.text())[*at]);
}

std::string object_name(const Value& value) {
  return value.is_none() ? "none" : "a value of type " + type_name(value);
}

Value no_item(const Value& value, const Value& key) {
  if (key.is_string()) return Value::undefined(object_name(value) + " has no attribute '" + key.text() + "'");
  return Value::undefined(object_name(value) + " has no such element");
}

}  // namespace

std::vector<Value> iterate(Budget& budget, const Value& value) {
  switch (value.kind()) {
    case Kind::kUndefined:
      return {};
    case Kind::kList:
    case Kind::kTuple:
      budget.items(value.items().size());
      return value.items();
    case Kind::kDict: {
      budget.items(value.as_dict().size());
      std::vector<Value> keys;
      for (const auto& item : value.as_dict().items()) keys.push_back(item.first);
      return keys;
    }
    case Kind::kString: {
      const std::vector<std::string_view> all = characters(value.text());
      budget.items(4 * all.size());
      std::vector<Value> items;
      items.reserve(all.size());
      for (std::string_view character : all)
        items.push_back(Value::string(value.prompt_text().part(character)));
      return items;
    }
    default:
      break;
  }
  Iterator* row = value.as<Iterator>();
  if (!row)
    refuse("a value of type ", type_name(value), " cannot be walked over, want a list, a dict or a text");
  budget.items(row->values.size() - row->next);
  std::vector<Value> rest(row->values.begin() + std::ptrdiff_t(row->next), row->values.end());
  if (row->form == Iterator::kGenerator) row->next = row->values.size();
  return rest;
}

std::optional<size_t> length_of(const Value& value) {
  switch (value.kind()) {
    case Kind::kUndefined:
      return 0;
    case Kind::kString:
      return count_characters(value.text());
    case Kind::kList:
    case Kind::kTuple:
      return value.items().size();
    case Kind::kDict:
      return value.as_dict().size();
    default:
      break;
  }
  const Iterator* row = value.as<Iterator>();
  if (!row || row->form == Iterator::kGenerator) return std::nullopt;
  return row->values.size();
}

Value get_attribute(const Value& value, const std::string& name) {
  if (value.is_undefined()) refuse(value.why());
  if (value.is(Kind::kObject)) {
    Value attribute = value.as_object().attribute(name, value);
    if (!attribute.is_undefined() || attribute.has_reason()) return attribute;
  } else {
    Value method = get_method(value, name);
    if (!method.is_undefined() || method.has_reason()) return method;
  }
  if (value.is_dict())
    if (const Value* item = value.as_dict().find(name)) return *item;
  return Value::undefined(object_name(value) + " has no attribute '" + name + "'");
}

Value get_item(Budget& budget, const Value& value, const Value& key) {
  if (value.is_undefined()) refuse(value.why());
  if (value.is_dict()) {
    if (const Value* item = can_be_key(key) ? value.as_dict().find(key) : nullptr) return *item;
  } else if (value.is_sequence()) {
    if (const auto at = position(key, value.items().size())) return value.items()[*at];
  } else if (value.is_string()) {
    if (key.is_number()) {
      budget.bytes(value.text().size() / 8);
      Value character = character_at(value, key);
      return character.is_undefined() ? no_item(value, key) : character;
    }
  } else if (const Iterator* row = value.as<Iterator>(); row && row->form == Iterator::kRange) {
    if (const auto at = position(key, row->values.size())) return row->values[*at];
  }
  if (key.is_string()) {
    Value attribute = value.is(Kind::kObject) ? value.as_object().attribute(key.text(), value)
                                              : get_method(value, key.text());
    if (!attribute.is_undefined() || attribute.has_reason()) return attribute;
  }
  return no_item(value, key);
}

Value get_slice(Budget& budget, const Value& value, const Value& begin, const Value& end, const Value& step) {
  if (value.is_undefined()) refuse(value.why());
  const Iterator* row = value.as<Iterator>();
  if (!value.is_string() && !value.is_sequence() && !(row && row->form == Iterator::kRange))
    refuse(object_name(value), " has no slices, want a text or a list");
  std::vector<std::string_view> letters;
  if (value.is_string()) {
    budget.bytes(value.text().size() * 2);
    letters = characters(value.text());
  }
  const size_t size = value.is_string() ? letters.size() : row ? row->values.size() : value.items().size();
  const auto indices = slice_indices(int64_t(size), begin, end, step);
  if (!indices) refuse("the ends of a slice are not whole numbers");
  if (value.is_string()) {
    Text text;
    for (size_t i : *indices) text.append_part(value.prompt_text(), letters[i]);
    return text_like(value, std::move(text));
  }
  budget.items(indices->size());
  std::vector<Value> items;
  items.reserve(indices->size());
  for (size_t i : *indices) items.push_back(row ? row->values[i] : value.items()[i]);
  return value.is(Kind::kTuple) ? Value::tuple(std::move(items)) : Value::list(std::move(items));
}

}  // namespace nanovllm::jinja
