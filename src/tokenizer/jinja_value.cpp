#include "tokenizer/jinja_value.h"

#include <algorithm>

#include "tokenizer/jinja_number.h"

namespace nanovllm::jinja {
namespace {

constexpr size_t kManyKeys = 8;  // from here on a hash table beats looking at every key
constexpr size_t kAbsent = size_t(-1);

struct Items {
  std::vector<Value> values;
  int depth;
};

void check_depth(int depth) {
  if (depth > kMaxValueDepth)
    refuse("a value nests deeper than ", kMaxValueDepth, " levels: give flatter data");
}

std::shared_ptr<const Items> share(std::vector<Value> values) {
  const int depth = 1 + deepest(values);
  check_depth(depth);
  return std::make_shared<const Items>(Items{std::move(values), depth});
}

}  // namespace

int deepest(const std::vector<Value>& values) {
  int depth = 0;
  for (const Value& value : values) depth = std::max(depth, value.depth());
  return depth;
}

Value Value::undefined(std::string why) {
  Value v;
  v.payload_ = std::make_shared<const Text>(std::move(why), Origin::kTemplate);
  return v;
}

Value Value::none() {
  Value v;
  v.kind_ = Kind::kNone;
  return v;
}

Value Value::boolean(bool value) {
  Value v;
  v.kind_ = Kind::kBool;
  v.integer_ = value;
  return v;
}

Value Value::integer(int64_t value) {
  Value v;
  v.kind_ = Kind::kInteger;
  v.integer_ = value;
  return v;
}

Value Value::big_integer(std::string decimal) {
  Value v;
  v.kind_ = Kind::kInteger;
  v.payload_ = std::make_shared<const Text>(std::move(decimal), Origin::kTemplate);
  return v;
}

Value Value::real(double value) {
  Value v;
  v.kind_ = Kind::kFloat;
  v.real_ = value;
  return v;
}

Value Value::string(Text text) {
  Value v;
  v.kind_ = Kind::kString;
  v.payload_ = std::make_shared<const Text>(std::move(text));
  return v;
}

Value Value::markup(Text text) {
  Value v = string(std::move(text));
  v.markup_ = true;
  return v;
}

Value Value::list(std::vector<Value> items) {
  Value v;
  v.payload_ = share(std::move(items));
  v.kind_ = Kind::kList;
  return v;
}

Value Value::tuple(std::vector<Value> items) {
  Value v;
  v.payload_ = share(std::move(items));
  v.kind_ = Kind::kTuple;
  return v;
}

Value Value::dict(Dict items) {
  check_depth(items.depth());
  Value v;
  v.payload_ = std::make_shared<const Dict>(std::move(items));
  v.kind_ = Kind::kDict;
  return v;
}

Value Value::object(std::shared_ptr<Object> object) {
  check_depth(object->depth);
  Value v;
  v.kind_ = Kind::kObject;
  v.payload_ = std::move(object);
  return v;
}

const std::vector<Value>& Value::items() const { return static_cast<const Items*>(payload_.get())->values; }

std::string Value::why() const { return payload_ ? text() : "the value is undefined"; }

int Value::depth() const {
  switch (kind_) {
    case Kind::kList:
    case Kind::kTuple:
      return static_cast<const Items*>(payload_.get())->depth;
    case Kind::kDict:
      return as_dict().depth();
    case Kind::kObject:
      return as_object().depth;
    default:
      return 0;
  }
}

bool Value::same_as(const Value& other) const {
  if (kind_ != other.kind_) return false;
  if (payload_ || other.payload_)
    return payload_ == other.payload_ || (is_string() && text() == other.text());  // Python interns literals
  if (is(Kind::kFloat)) return real_ == other.real_;
  return integer_ == other.integer_;
}

size_t Dict::index_of(std::string_view key) const {
  if (!by_text_.empty()) {
    const auto found = by_text_.find(key);
    return found == by_text_.end() ? kAbsent : found->second;
  }
  for (size_t i = 0; i < items_.size(); ++i)
    if (items_[i].first.is_string() && items_[i].first.text() == key) return i;
  return kAbsent;
}

size_t Dict::index_of(const Value& key) const {
  if (key.is_string()) return index_of(std::string_view(key.text()));
  for (size_t i = 0; i < items_.size(); ++i)
    if (same_key(items_[i].first, key)) return i;
  return kAbsent;
}

const Value* Dict::find(const Value& key) const {
  const size_t i = index_of(key);
  return i == kAbsent ? nullptr : &items_[i].second;
}

const Value* Dict::find(std::string_view key) const {
  const size_t i = index_of(key);
  return i == kAbsent ? nullptr : &items_[i].second;
}

void Dict::set(Value key, Value value) {
  depth_ = std::max({depth_, 1 + key.depth(), 1 + value.depth()});
  const size_t i = index_of(key);
  if (i != kAbsent) {
    items_[i].second = std::move(value);
    return;
  }
  items_.emplace_back(std::move(key), std::move(value));
  if (items_.size() < kManyKeys) return;
  const size_t first = by_text_.empty() ? 0 : items_.size() - 1;
  for (size_t k = first; k < items_.size();
       ++k)  // the views point into shared text, which no move of items_ touches
    if (items_[k].first.is_string()) by_text_.emplace(items_[k].first.text(), k);
}

std::string type_name(const Value& value) {
  switch (value.kind()) {
    case Kind::kUndefined:
      return "Undefined";
    case Kind::kNone:
      return "NoneType";
    case Kind::kBool:
      return "bool";
    case Kind::kInteger:
      return "int";
    case Kind::kFloat:
      return "float";
    case Kind::kString:
      return value.is_markup() ? "Markup" : "str";
    case Kind::kList:
      return "list";
    case Kind::kTuple:
      return "tuple";
    case Kind::kDict:
      return "dict";
    case Kind::kObject:
      return value.as_object().type_name();
  }
  return "";
}

bool same_key(const Value& a, const Value& b) {
  if (a.is_number() && b.is_number()) return compare_numbers(a, b) == 0;
  if (a.kind() != b.kind()) return false;
  switch (a.kind()) {
    case Kind::kUndefined:
    case Kind::kNone:
      return true;
    case Kind::kString:
      return a.text() == b.text();
    case Kind::kTuple:
      return std::equal(a.items().begin(), a.items().end(), b.items().begin(), b.items().end(), same_key);
    default:
      return a.same_as(b);
  }
}

bool can_be_key(const Value& value) {
  if (value.is(Kind::kTuple)) return std::all_of(value.items().begin(), value.items().end(), can_be_key);
  return !value.is(Kind::kList) && !value.is_dict();
}

}  // namespace nanovllm::jinja
