// Typed access to the fields of a JSON object (simdjson's DOM) with errors that say which file, which field,
// what was wanted. Included by source files only: simdjson is a heavy header.
#pragma once

#include <simdjson.h>

#include <cstdint>
#include <limits>
#include <string>
#include <string_view>
#include <utility>

#include "base/error.h"
#include "base/token.h"

namespace nanovllm {

// One JSON value and where it stands ("tokenizer.json: model.merges[3]").
class JsonValue {
 public:
  JsonValue(simdjson::dom::element value, std::string path) : value_(value), path_(std::move(path)) {}

  const std::string& path() const { return path_; }
  bool is_null() const { return value_.is_null(); }
  bool is_string() const { return value_.is_string(); }
  bool is_object() const { return value_.is_object(); }

  std::string_view as_string() const { return as<std::string_view>("a string"); }
  bool as_bool() const { return as<bool>("true or false"); }
  int64_t as_int() const { return as<int64_t>("an integer"); }
  double as_number() const { return as<double>("a number"); }
  TokenId as_token_id() const {
    const int64_t id = as_int();
    if (id < 0 || id > std::numeric_limits<TokenId>::max())
      fail(ErrorKind::kConfig, path_, ": is ", id, ", want a token id");
    return TokenId(id);
  }
  simdjson::dom::array as_array() const { return as<simdjson::dom::array>("an array"); }
  simdjson::dom::object as_object() const { return as<simdjson::dom::object>("an object"); }

  bool has(std::string_view key) const {
    simdjson::dom::element field;
    return as_object()[key].get(field) == simdjson::SUCCESS && !field.is_null();
  }
  // A field that must be there; null counts as a value.
  JsonValue at(std::string_view key) const {
    simdjson::dom::element field;
    if (as_object()[key].get(field) != simdjson::SUCCESS)
      fail(ErrorKind::kConfig, path_, ": no \"", key, "\"");
    return {field, path_ + separator() + std::string(key)};
  }
  JsonValue item(simdjson::dom::element value, size_t index) const {
    return {value, path_ + "[" + std::to_string(index) + "]"};
  }
  template <class Body>
  void for_each_item(Body&& body) const {
    size_t index = 0;
    for (const simdjson::dom::element value : as_array()) body(item(value, index++));
  }
  bool flag(std::string_view key, bool when_absent) const {
    return has(key) ? at(key).as_bool() : when_absent;
  }

 private:
  template <class T>
  T as(std::string_view wanted) const {
    T out;
    if (value_.get(out) != simdjson::SUCCESS) fail(ErrorKind::kConfig, path_, ": want ", wanted);
    return out;
  }
  // "tokenizer.json: model", then "tokenizer.json: model.vocab".
  std::string separator() const { return path_.find(": ") == std::string::npos ? ": " : "."; }

  simdjson::dom::element value_;
  std::string path_;
};

// The parser owns the memory of the values.
inline JsonValue parse_json(simdjson::dom::parser& parser, std::string_view json, std::string_view where) {
  simdjson::dom::element root;
  const simdjson::error_code error = parser.parse(json.data(), json.size()).get(root);
  if (error != simdjson::SUCCESS)
    fail(ErrorKind::kConfig, where, ": is not JSON: ", simdjson::error_message(error));
  return {root, std::string(where)};
}

}  // namespace nanovllm
