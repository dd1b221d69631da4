// Typed access to a configuration's JSON fields with errors that name file and field. Only for .cpp files:
// heavy header.
#pragma once

#include <limits>
#include <nlohmann/json.hpp>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "base/error.h"
#include "base/token.h"

namespace nanovllm {

// The value of a JSON text. throws Error(kind): not JSON, or nested so deeply that writing it into a message
// could exhaust the stack
inline nlohmann::json parse_json_text(const std::string& text, ErrorKind kind, const std::string& where) {
  constexpr int kMaxDepth = 100;
  const std::string at = where.empty() ? "" : where + ": ";
  const auto check_depth = [&](int depth, nlohmann::json::parse_event_t, const nlohmann::json&) {
    if (depth > kMaxDepth) fail(kind, at, "is nested deeper than ", kMaxDepth, " levels");
    return true;
  };
  try {
    return nlohmann::json::parse(text, check_depth);
  } catch (const nlohmann::json::exception& error) {
    fail(kind, at, "is not JSON: ", error.what());
  }
}

class JsonFields {
 public:
  // text must be a JSON object. throws Error(kConfig)
  JsonFields(const std::string& text, std::string where)
      : json_(parse_json_text(text, ErrorKind::kConfig, where)), where_(std::move(where)) {
    if (!json_.is_object())
      fail(ErrorKind::kConfig, where_, ": is ", json_.type_name(), ", want a JSON object");
  }
  JsonFields(nlohmann::json json, std::string where) : json_(std::move(json)), where_(std::move(where)) {}

  const std::string& where() const { return where_; }
  // null where the field is absent or null
  const nlohmann::json* find(const char* key) const {
    asked_for_.insert(key);
    const auto it = json_.find(key);
    return it == json_.end() || it->is_null() ? nullptr : &*it;
  }

  bool has_null(const char* key) const { return json_.contains(key) && json_.at(key).is_null(); }
  // Fields with a value that nobody has asked for.
  std::vector<std::string> unread() const {
    std::vector<std::string> keys;
    for (const auto& [key, value] : json_.items())
      if (!value.is_null() && !asked_for_.contains(key)) keys.push_back(key);
    return keys;
  }

  std::optional<JsonFields> object(const char* key) const {
    const nlohmann::json* value = find(key);
    if (!value) return std::nullopt;
    if (!value->is_object()) wrong(key, *value, "an object");
    return JsonFields(*value, where_ + ": " + key);
  }
  std::optional<int64_t> integer(const char* key, int64_t min, int64_t max) const {
    const nlohmann::json* value = find(key);
    if (!value) return std::nullopt;
    if (!value->is_number_integer() ||
        (value->is_number_unsigned() && value->get<uint64_t>() > uint64_t(max)) ||
        value->get<int64_t>() < min || value->get<int64_t>() > max)
      wrong(key, *value, "a whole number from " + std::to_string(min) + " to " + std::to_string(max));
    return value->get<int64_t>();
  }
  int64_t required_integer(const char* key, int64_t min, int64_t max) const {
    const std::optional<int64_t> value = integer(key, min, max);
    if (!value) fail(ErrorKind::kConfig, where_, ": has no ", key);
    return *value;
  }
  std::optional<double> number(const char* key) const {
    const nlohmann::json* value = find(key);
    if (!value) return std::nullopt;
    if (!value->is_number()) wrong(key, *value, "a number");
    return value->get<double>();
  }
  std::optional<bool> boolean(const char* key) const {
    const nlohmann::json* value = find(key);
    if (!value) return std::nullopt;
    if (!value->is_boolean()) wrong(key, *value, "true or false");
    return value->get<bool>();
  }
  std::optional<std::string> text(const char* key) const {
    const nlohmann::json* value = find(key);
    if (!value) return std::nullopt;
    if (!value->is_string()) wrong(key, *value, "a string");
    return value->get<std::string>();
  }
  // One id or a list of ids; absent or null: none.
  std::vector<TokenId> token_ids(const char* key) const {
    const nlohmann::json* value = find(key);
    if (!value) return {};
    std::vector<TokenId> ids;
    for (const nlohmann::json& id : value->is_array() ? *value : nlohmann::json::array({*value})) {
      if (!id.is_number_integer() || id.get<int64_t>() < 0 ||
          id.get<int64_t>() > std::numeric_limits<TokenId>::max())
        wrong(key, *value, "a token id or a list of them");
      ids.push_back(id.get<TokenId>());
    }
    return ids;
  }

  [[noreturn]] void wrong(const char* key, const nlohmann::json& value, const std::string& want) const {
    fail(ErrorKind::kConfig, where_, ": ", key, " is ", value.dump().substr(0, 80), ", want ", want);
  }

 private:
  nlohmann::json json_;
  std::string where_;
  mutable std::set<std::string> asked_for_;
};

}  // namespace nanovllm
