// The values a chat template works on: Python's, as far as templates can tell.
//
// A Value is cheap to copy: text, lists and dicts are shared and never change once they are made, so threads
// may share them. Only objects (a namespace, a generator) change, and those belong to one render. Containers
// know how deep they nest, and none is made deeper than kMaxValueDepth: whatever walks a value by recursion,
// its destructor included, is safe on any stack.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <unordered_map>
#include <utility>
#include <vector>

#include "base/error.h"
#include "tokenizer/prompt_text.h"

namespace nanovllm::jinja {

class Dict;
class Value;
using Text = PromptText;  // every text of a template knows where it came from
struct Object;

enum class Kind : uint8_t {
  kUndefined,
  kNone,
  kBool,
  kInteger,  // of any length; see jinja_number.h
  kFloat,
  kString,
  kList,
  kTuple,
  kDict,
  kObject,  // functions, macros, namespaces, generators
};

// JSON schemas of tools nest about 20 levels; this leaves room and costs little stack.
constexpr int kMaxValueDepth = 200;

// What goes wrong inside a render, before it is known where in the template: ChatTemplate adds the place.
class Failure : public Error {
 public:
  explicit Failure(const std::string& message) : Error(ErrorKind::kRequest, message) {}
};

// Throws Failure with the parts written one after the other.
template <class... Parts>
[[noreturn]] void refuse(const Parts&... parts) {
  std::ostringstream message;
  (message << ... << parts);
  throw Failure(message.str());
}

class Value {
 public:
  Value() = default;                        // undefined
  static Value undefined(std::string why);  // why: what an error says when the value is used
  static Value none();
  static Value boolean(bool value);
  static Value integer(int64_t value);
  static Value big_integer(
      std::string decimal);  // one that does not fit int64_t: "-" or nothing, then digits
  static Value real(double value);
  static Value string(Text text);
  static Value markup(Text text);  // text that `safe` or `escape` marked: + escapes what is joined to it
  // These throw Failure (an Error of kRequest) when they would nest deeper than kMaxValueDepth.
  static Value list(std::vector<Value> items);
  static Value tuple(std::vector<Value> items);
  static Value dict(Dict items);
  static Value object(std::shared_ptr<Object> object);

  Kind kind() const { return kind_; }
  bool is(Kind kind) const { return kind_ == kind; }
  bool is_undefined() const { return kind_ == Kind::kUndefined; }
  bool is_none() const { return kind_ == Kind::kNone; }
  bool is_string() const { return kind_ == Kind::kString; }
  bool is_markup() const { return kind_ == Kind::kString && markup_; }
  bool is_number() const { return kind_ == Kind::kBool || kind_ == Kind::kInteger || kind_ == Kind::kFloat; }
  bool is_sequence() const { return kind_ == Kind::kList || kind_ == Kind::kTuple; }  // has items()
  bool is_dict() const { return kind_ == Kind::kDict; }
  bool is_big() const { return kind_ == Kind::kInteger && payload_ != nullptr; }  // an integer held as text()

  // Each may be asked of its own kinds only.
  bool as_bool() const { return integer_ != 0; }
  int64_t as_integer() const { return integer_; }  // of a bool too; not of a big integer
  double as_float() const { return real_; }
  const std::string& text() const { return prompt_text().str(); }
  const Text& prompt_text() const { return *static_cast<const Text*>(payload_.get()); }
  const std::vector<Value>& items() const;
  const Dict& as_dict() const { return *static_cast<const Dict*>(payload_.get()); }
  // Constness stops here: what an object holds is one render's state, not part of the value.
  Object& as_object() const { return *const_cast<Object*>(static_cast<const Object*>(payload_.get())); }
  // The object if it is of this type, else null.
  template <class T>
  T* as() const;

  std::string why() const;  // of an undefined one
  bool has_reason() const { return is_undefined() && payload_ != nullptr; }
  int depth() const;  // 0 for what holds nothing
  // The same object in memory, or the same constant: what Python's `is` asks.
  bool same_as(const Value& other) const;

 private:
  Kind kind_ = Kind::kUndefined;
  bool markup_ = false;
  union {
    int64_t integer_ = 0;
    double real_;
  };
  std::shared_ptr<const void> payload_;
};

// A dict in order of insertion. A key set again keeps its place and its first form (1, 1.0 and true are one
// key).
class Dict {
 public:
  using Item = std::pair<Value, Value>;

  const std::vector<Item>& items() const { return items_; }
  size_t size() const { return items_.size(); }
  const Value* find(const Value& key) const;  // null when absent
  const Value* find(std::string_view key) const;
  void set(Value key, Value value);
  // A name may have come from a message (f(**message)), so it counts as a message's text.
  void set(std::string key, Value value) {
    set(Value::string(Text(std::move(key), Origin::kMessage)), std::move(value));
  }
  int depth() const { return depth_; }

 private:
  size_t index_of(const Value& key) const;
  size_t index_of(std::string_view key) const;

  std::vector<Item> items_;
  std::unordered_map<std::string_view, size_t> by_text_;  // text keys, once there are many
  int depth_ = 1;
};

// What is neither data nor undefined. depth as of containers, for objects that hold values.
struct Object {
  virtual ~Object() = default;
  virtual std::string type_name() const = 0;
  virtual Text repr() const { return {"<" + type_name() + " object>", Origin::kTemplate}; }
  // self: the value that holds this object, for methods to keep. Undefined if there is no such attribute.
  virtual Value attribute(const std::string&, const Value& self) const { return (void)self, Value(); }
  virtual bool is_callable() const { return false; }
  int depth = 0;
};

template <class T>
T* Value::as() const {
  return kind_ == Kind::kObject ? dynamic_cast<T*>(&as_object()) : nullptr;
}

// As Python names it in messages: 'int', 'NoneType', 'str' ...
std::string type_name(const Value& value);

// Whether two values are one dict key. Numbers compare across their kinds; other kinds are equal only to
// themselves.
bool same_key(const Value& a, const Value& b);

// Whether Python could hash it.
bool can_be_key(const Value& value);

// The deepest of them, 0 for none.
int deepest(const std::vector<Value>& values);

}  // namespace nanovllm::jinja
