// Filters of rows of values: lists, dicts, texts by their characters.
#include <algorithm>

#include "tokenizer/jinja_filters.h"
#include "tokenizer/jinja_operators.h"
#include "tokenizer/jinja_print.h"
#include "tokenizer/jinja_text.h"

namespace nanovllm::jinja {
namespace {

Value length(Machine& machine, const Value& input, const Arguments& a) {
  Bound("length", a, {});
  if (input.is_string()) machine.budget.bytes(input.text().size() / 8);
  const std::optional<size_t> size = length_of(input);
  if (!size) refuse("a value of type ", type_name(input), " has no length");
  return Value::integer(int64_t(*size));
}

Value list(Machine& machine, const Value& input, const Arguments& a) {
  Bound("list", a, {});
  return Value::list(iterate(machine.budget, input));
}

Value first(Machine& machine, const Value& input, const Arguments& a) {
  Bound("first", a, {});
  if (input.is_sequence() && !input.items().empty()) return input.items().front();
  if (Iterator* row = input.as<Iterator>();
      row && row->form == Iterator::kGenerator && row->next < row->values.size())
    return row->values[row->next++];
  const std::vector<Value> items = iterate(machine.budget, input);
  return items.empty() ? Value::undefined("first of an empty row of values") : items.front();
}

Value last(Machine& machine, const Value& input, const Arguments& a) {
  Bound("last", a, {});
  if (input.is_sequence() && !input.items().empty()) return input.items().back();
  if (const Iterator* row = input.as<Iterator>(); row && row->form == Iterator::kGenerator)
    refuse("last of a generator, want a list (| list)");
  const std::vector<Value> items = iterate(machine.budget, input);
  return items.empty() ? Value::undefined("last of an empty row of values") : items.back();
}

// One of the items. Always the first: the same request gives the same prompt.
Value random(Machine& machine, const Value& input, const Arguments& a) { return first(machine, input, a); }

Value join(Machine& machine, const Value& input, const Arguments& a) {
  const Bound bound("join", a, {"d", "attribute"});
  const Text between = bound.has(0) ? to_str(machine.budget, bound[0]) : "";
  const bool by_attribute = bound.has(1) && !bound[1].is_none();
  const AttributePath path(by_attribute ? bound[1] : Value::string(""));
  Text text;
  bool is_first = true;
  for (const Value& item : iterate(machine.budget, input)) {
    if (!std::exchange(is_first, false)) text += between;
    const Text piece = to_str(machine.budget, by_attribute ? path.of(machine.budget, item) : item);
    machine.budget.bytes(piece.size() + between.size());
    text += piece;
  }
  return Value::string(std::move(text));
}

Value reverse(Machine& machine, const Value& input, const Arguments& a) {
  Bound("reverse", a, {});
  if (input.is_string())
    return get_slice(machine.budget, input, Value::none(), Value::none(), Value::integer(-1));
  std::vector<Value> items = iterate(machine.budget, input);
  std::reverse(items.begin(), items.end());
  return make_generator(std::move(items));
}

Value items(Machine& machine, const Value& input, const Arguments& a) {
  Bound("items", a, {});
  if (input.is_undefined()) return make_generator({});
  if (!input.is_dict()) refuse("items of a value of type ", type_name(input), ", want a dict");
  machine.budget.items(2 * input.as_dict().size());
  std::vector<Value> pairs;
  for (const auto& [key, value] : input.as_dict().items()) pairs.push_back(Value::tuple({key, value}));
  return make_generator(std::move(pairs));
}

struct Keyed {
  Value key, value;
};

// Sorted by key, equal ones in their order; descending keeps that order too, as Python's sort(reverse=True).
void sort_by_key(Budget& budget, std::vector<Keyed>& rows, bool descending) {
  std::stable_sort(rows.begin(), rows.end(), [&](const Keyed& x, const Keyed& y) {
    return descending ? less(budget, y.key, x.key) : less(budget, x.key, y.key);
  });
}

// Each item with the key that `attribute` names ('a,b' names two), or itself.
std::vector<Keyed> keyed(Machine& machine, const Value& input, const Value& attribute, bool case_sensitive) {
  std::vector<AttributePath> paths;
  const bool several = attribute.is_string() && attribute.text().find(',') != std::string::npos;
  if (several) {
    std::string_view rest = attribute.text();
    for (;;) {
      const size_t comma = rest.find(',');
      paths.emplace_back(Value::string(attribute.prompt_text().part(rest.substr(0, comma))));
      if (comma == rest.npos) break;
      rest.remove_prefix(comma + 1);
    }
  } else if (!attribute.is_none() && !attribute.is_undefined()) {
    paths.emplace_back(attribute);
  }
  std::vector<Keyed> rows;
  for (Value& item : iterate(machine.budget, input)) {
    std::vector<Value> keys;
    for (const AttributePath& path : paths)
      keys.push_back(sort_key(machine.budget, path.of(machine.budget, item), case_sensitive));
    if (paths.empty()) keys.push_back(sort_key(machine.budget, item, case_sensitive));
    rows.push_back({several ? Value::list(std::move(keys)) : keys[0], std::move(item)});
  }
  return rows;
}

std::vector<Value> values_of(std::vector<Keyed> rows) {
  std::vector<Value> values;
  for (Keyed& row : rows) values.push_back(std::move(row.value));
  return values;
}

Value sort(Machine& machine, const Value& input, const Arguments& a) {
  const Bound bound("sort", a, {"reverse", "case_sensitive", "attribute"});
  std::vector<Keyed> rows = keyed(machine, input, bound[2], bound.truth(1, false));
  sort_by_key(machine.budget, rows, bound.truth(0, false));
  return Value::list(values_of(std::move(rows)));
}

Value dict_sort(Machine& machine, const Value& input, const Arguments& a) {
  const Bound bound("dictsort", a, {"case_sensitive", "by", "reverse"});
  const std::string by = bound.has(1) ? bound.string(1) : "key";
  if (by != "key" && by != "value") refuse("dictsort by '", by, "', want key or value");
  if (!input.is_dict()) refuse("dictsort of a value of type ", type_name(input), ", want a dict");
  std::vector<Keyed> rows;
  machine.budget.items(2 * input.as_dict().size());
  for (const auto& [key, value] : input.as_dict().items())
    rows.push_back({sort_key(machine.budget, by == "key" ? key : value, bound.truth(0, false)),
                    Value::tuple({key, value})});
  sort_by_key(machine.budget, rows, bound.truth(2, false));
  return Value::list(values_of(std::move(rows)));
}

Value unique(Machine& machine, const Value& input, const Arguments& a) {
  const Bound bound("unique", a, {"case_sensitive", "attribute"});
  Dict seen;
  std::vector<Value> kept;
  for (Keyed& row : keyed(machine, input, bound[1], bound.truth(0, false))) {
    if (!can_be_key(row.key))
      refuse("unique of a value of type ", type_name(row.key), ", want texts or numbers");
    if (!row.key.is_string()) machine.budget.step(seen.size());
    if (seen.find(row.key)) continue;
    seen.set(row.key, Value::none());
    kept.push_back(std::move(row.value));
  }
  return make_generator(std::move(kept));
}

template <bool kMax>
Value extreme(Machine& machine, const Value& input, const Arguments& a) {
  const Bound bound(kMax ? "max" : "min", a, {"case_sensitive", "attribute"});
  std::vector<Keyed> rows = keyed(machine, input, bound[1], bound.truth(0, false));
  if (rows.empty()) return Value::undefined("min or max of an empty row of values");
  size_t best = 0;
  for (size_t i = 1; i < rows.size(); ++i) {
    const bool better = kMax ? less(machine.budget, rows[best].key, rows[i].key)
                             : less(machine.budget, rows[i].key, rows[best].key);
    if (better) best = i;
  }
  return rows[best].value;
}

Value sum(Machine& machine, const Value& input, const Arguments& a) {
  const Bound bound("sum", a, {"attribute", "start"});
  const bool by_attribute = bound.has(0) && !bound[0].is_none();
  const AttributePath path(by_attribute ? bound[0] : Value::string(""));
  Value total = bound.get(1, Value::integer(0));
  for (const Value& item : iterate(machine.budget, input))
    total = arithmetic(machine.budget, Operator::kAdd, total,
                       by_attribute ? path.of(machine.budget, item) : item);
  return total;
}

Value group_by(Machine& machine, const Value& input, const Arguments& a) {
  const Bound bound("groupby", a, {"attribute", "default", "case_sensitive"}, 1);
  const bool case_sensitive = bound.truth(2, false);
  const AttributePath path(bound[0]);
  std::vector<Keyed> rows;
  for (Value& item : iterate(machine.budget, input)) {
    Value key = path.of(machine.budget, item);
    if (key.is_undefined() && bound.has(1)) key = bound[1];
    rows.push_back({sort_key(machine.budget, key, case_sensitive), std::move(item)});
  }
  sort_by_key(machine.budget, rows, false);
  std::vector<Value> groups;
  for (size_t i = 0; i < rows.size();) {
    const Value key = path.of(machine.budget, rows[i].value);
    std::vector<Value> members;
    const size_t begin = i;
    for (; i < rows.size() && equal(machine.budget, rows[i].key, rows[begin].key); ++i)
      members.push_back(rows[i].value);
    groups.push_back(Value::tuple({key.is_undefined() ? bound[1] : key, Value::list(std::move(members))}));
  }
  return Value::list(std::move(groups));
}

Value batch(Machine& machine, const Value& input, const Arguments& a) {
  const Bound bound("batch", a, {"linecount", "fill_with"}, 1);
  const int64_t count = bound.integer(0, 1);
  if (count < 1) refuse("batch by ", count, ", want at least 1");
  std::vector<Value> batches, items;
  const auto flush = [&] { batches.push_back(Value::list(std::exchange(items, {}))); };
  for (Value& item : iterate(machine.budget, input)) {
    if (int64_t(items.size()) == count) flush();
    items.push_back(std::move(item));
  }
  if (!items.empty() && bound.has(1) && !bound[1].is_none()) {
    machine.budget.items(size_t(count) - items.size());
    items.resize(size_t(count), bound[1]);
  }
  if (!items.empty()) flush();
  return make_generator(std::move(batches));
}

Value slice(Machine& machine, const Value& input, const Arguments& a) {
  const Bound bound("slice", a, {"slices", "fill_with"}, 1);
  const int64_t slices = bound.integer(0, 1);
  if (slices < 1) refuse("slice into ", slices, ", want at least 1");
  const std::vector<Value> items = iterate(machine.budget, input);
  machine.budget.items(size_t(slices));
  const size_t each = items.size() / size_t(slices), longer = items.size() % size_t(slices);
  std::vector<Value> result;
  auto at = items.begin();
  for (size_t i = 0; i < size_t(slices); ++i) {
    const auto end = at + std::ptrdiff_t(each + (i < longer));
    std::vector<Value> part(at, end);
    if (bound.has(1) && !bound[1].is_none() && i >= longer) part.push_back(bound[1]);
    result.push_back(Value::list(std::move(part)));
    at = end;
  }
  return make_generator(std::move(result));
}

constexpr NamedFilter kFilters[] = {
    {"length", length},   {"count", length},       {"list", list},         {"first", first},
    {"last", last},       {"random", random},      {"join", join},         {"items", items},
    {"reverse", reverse}, {"sort", sort},          {"unique", unique},     {"dictsort", dict_sort},
    {"sum", sum},         {"min", extreme<false>}, {"max", extreme<true>}, {"batch", batch},
    {"slice", slice},     {"groupby", group_by},
};

}  // namespace

AttributePath::AttributePath(const Value& attribute) {
  if (!attribute.is_string()) {
    keys_.push_back(attribute);
    return;
  }
  std::string_view rest = attribute.text();
  while (!rest.empty()) {
    const size_t dot = std::min(rest.find('.'), rest.size());
    const std::string part(rest.substr(0, dot));
    const bool number =
        part.size() < 10 && !part.empty() && part.find_first_not_of("0123456789") == part.npos;
    keys_.push_back(number ? Value::integer(std::stoll(part))
                           : Value::string({part, attribute.prompt_text().worst_origin()}));
    rest.remove_prefix(std::min(dot + 1, rest.size()));
  }
}

Value AttributePath::of(Budget& budget, Value value) const {
  for (const Value& key : keys_) value = get_item(budget, value, key);
  return value;
}

Value sort_key(Budget& budget, const Value& value, bool case_sensitive) {
  if (case_sensitive || !value.is_string()) return value;
  budget.bytes(value.text().size());
  return Value::string(value.prompt_text().changed_to(to_lower(value.text())));
}

std::span<const NamedFilter> sequence_filters() { return kFilters; }

}  // namespace nanovllm::jinja
