#include "tokenizer/jinja_json.h"

#include <nlohmann/json.hpp>

#include "tokenizer/jinja_number.h"

namespace nanovllm::jinja {
namespace {

using Json = nlohmann::ordered_json;

// Receives the parser's events; nlohmann's parser itself does not recurse.
class Builder : public nlohmann::json_sax<Json> {
 public:
  Value result;

  bool null() override { return put(Value::none()); }
  bool boolean(bool value) override { return put(Value::boolean(value)); }
  bool number_integer(number_integer_t value) override { return put(Value::integer(value)); }
  bool number_unsigned(number_unsigned_t value) override { return put(from_wide(Wide(value))); }
  // Integers beyond 64 bits come here too, so the text decides.
  bool number_float(number_float_t value, const string_t& text) override {
    return put(text.find_first_of(".eE") == text.npos ? integer_from_decimal(text) : Value::real(value));
  }
  bool string(string_t& text) override { return put(Value::string({std::move(text), Origin::kMessage})); }
  bool binary(binary_t&) override { return false; }
  bool start_object(size_t) override { return open(true); }
  bool start_array(size_t) override { return open(false); }
  bool key(string_t& name) override {
    levels_.back().key = std::move(name);
    return true;
  }
  bool end_object() override { return close(); }
  bool end_array() override { return close(); }
  bool parse_error(size_t position, const std::string&, const nlohmann::detail::exception& error) override {
    constexpr int kOutOfRange = 406;  // nlohmann's number for it
    if (error.id == kOutOfRange) refuse("JSON: the number that ends at byte ", position, " is beyond 1e308");
    refuse("JSON: byte ", position - (position > 0), " is wrong or the text ends too early");
  }

 private:
  struct Level {
    bool is_dict;
    Dict dict;
    std::vector<Value> list;
    std::string key;
  };

  bool open(bool is_dict) {
    if (levels_.size() == size_t(kMaxValueDepth))
      refuse("JSON nests deeper than ", kMaxValueDepth, " levels");
    levels_.push_back({is_dict, {}, {}, {}});
    return true;
  }

  bool close() {
    Level level = std::move(levels_.back());
    levels_.pop_back();
    return put(level.is_dict ? Value::dict(std::move(level.dict)) : Value::list(std::move(level.list)));
  }

  bool put(Value value) {
    if (levels_.empty())
      result = std::move(value);
    else if (levels_.back().is_dict)
      levels_.back().dict.set(std::move(levels_.back().key), std::move(value));
    else
      levels_.back().list.push_back(std::move(value));
    return true;
  }

  std::vector<Level> levels_;
};

}  // namespace

Value parse_json(std::string_view text) {
  Builder builder;
  Json::sax_parse(text, &builder);
  return builder.result;
}

}  // namespace nanovllm::jinja
