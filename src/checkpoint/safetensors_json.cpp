#include "checkpoint/safetensors_json.h"

#include <array>
#include <nlohmann/json.hpp>
#include <utility>

#include "base/assert.h"
#include "base/error.h"
#include "checkpoint/printable.h"

namespace nanovllm {
namespace {

namespace fs = std::filesystem;

constexpr std::string_view kMetadata = "__metadata__";

// JSON as events. Nothing is built but what a reader keeps, a key that comes twice is seen, and the parser
// does not recurse. Each event that a reader does not expect ends in unexpected(), which throws.
class JsonReader : public nlohmann::json_sax<nlohmann::json> {
 public:
  JsonReader(const fs::path& file, std::string_view part) : file_(file), part_(part) {}

  void read(std::string_view json) {
    // The library takes a zero byte for the end of the text, and does not look behind it.
    const size_t zero = json.find('\0');
    if (zero != std::string_view::npos) fail_syntax(zero + 1);
    nlohmann::json::sax_parse(json, this);
  }

  bool null() override { return unexpected("null"); }
  bool boolean(bool) override { return unexpected("true or false"); }
  bool number_integer(number_integer_t) override { return unexpected("a negative number"); }
  bool number_unsigned(number_unsigned_t) override { return unexpected("a number"); }
  bool number_float(number_float_t, const string_t&) override {
    return unexpected("a number with a fraction or beyond 2^64");
  }
  bool string(string_t&) override { return unexpected("a string"); }
  bool binary(binary_t&) override { return unexpected("binary data"); }
  bool start_array(size_t) override { return unexpected("a list"); }
  bool parse_error(size_t position, const std::string&, const nlohmann::json::exception&) override {
    fail_syntax(position);
  }

 protected:
  virtual bool unexpected(std::string_view what) = 0;

  const fs::path& file_;

 private:
  // The first byte has position 1.
  [[noreturn]] void fail_syntax(size_t position) const {
    fail_file(file_, part_, " is not JSON from byte ", position, " on (download it again)");
  }

  std::string_view part_;
};

// {"__metadata__": {...}, "lm_head.weight": {"dtype": "BF16", "shape": [8, 4], "data_offsets": [0, 64]}, ...}
class HeaderReader : public JsonReader {
 public:
  explicit HeaderReader(const fs::path& file) : JsonReader(file, "the header") {}

  std::vector<SafetensorsEntry> entries;

  bool key(string_t& key) override {
    if (place_ == Place::kHeader) begin_entry(std::move(key));
    if (place_ == Place::kEntry) begin_field(key);
    return true;
  }

  bool start_object(size_t) override {
    if (place_ == Place::kStart)
      place_ = Place::kHeader;
    else if (place_ == Place::kHeader)
      place_ = name_ == kMetadata ? Place::kMetadata : Place::kEntry;
    else
      unexpected("an object");
    return true;
  }

  bool end_object() override {
    if (place_ == Place::kEntry) end_entry();
    place_ = place_ == Place::kHeader ? Place::kStart : Place::kHeader;
    return true;
  }

  bool start_array(size_t) override {
    if (place_ != Place::kEntry || field_ == Field::kDType) return unexpected("a list");
    place_ = Place::kNumbers;
    return true;
  }

  bool end_array() override {
    place_ = Place::kEntry;
    return true;
  }

  bool number_unsigned(number_unsigned_t number) override {
    if (place_ != Place::kNumbers) return unexpected("a number");
    if (number > kMaxSafetensorsNumber) return unexpected("a number above 2^53");
    numbers().push_back(number);
    return true;
  }

  bool string(string_t& text) override {
    if (place_ == Place::kMetadata) return true;
    if (place_ != Place::kEntry || field_ != Field::kDType) return unexpected("a string");
    entry_.dtype = std::move(text);
    return true;
  }

 private:
  enum class Place { kStart, kHeader, kMetadata, kEntry, kNumbers };
  enum class Field { kDType, kShape, kOffsets };

  static const char* field_name(Field field) {
    return std::array{"dtype", "shape", "data_offsets"}[size_t(field)];
  }

  std::vector<uint64_t>& numbers() { return field_ == Field::kShape ? entry_.shape : entry_.offsets; }

  void begin_entry(std::string name) {
    name_ = std::move(name);
    if (name_ == kMetadata && std::exchange(seen_metadata_, true))
      fail_file(file_, kMetadata, " is in the header twice");
    entry_ = {};
    seen_ = {};
  }

  void begin_field(const std::string& key) {
    for (const Field field : {Field::kDType, Field::kShape, Field::kOffsets}) {
      if (key != field_name(field)) continue;
      if (std::exchange(seen_[size_t(field)], true))
        fail_file(file_, printable(name_), " has ", key, " twice");
      field_ = field;
      return;
    }
    fail_file(file_, printable(name_), " has a key ", printable(key),
              ", want dtype, shape and data_offsets only");
  }

  void end_entry() {
    for (const Field field : {Field::kDType, Field::kShape, Field::kOffsets})
      if (!seen_[size_t(field)]) fail_file(file_, printable(name_), " has no ", field_name(field));
    entry_.name = std::move(name_);
    entries.push_back(std::move(entry_));
  }

  bool unexpected(std::string_view what) override {
    switch (place_) {
      case Place::kStart:
        break;  // the text begins with a brace
      case Place::kMetadata:
        fail_file(file_, kMetadata, " holds ", what, ", want strings only");
      case Place::kHeader:
        if (name_ == kMetadata) fail_file(file_, kMetadata, " is ", what, ", want a map of strings");
        fail_file(file_, printable(name_), " is ", what,
                  ", want an object with dtype, shape and data_offsets");
      case Place::kEntry:
        fail_file(file_, printable(name_), ": ", field_name(field_), " is ", what, ", want ",
                  field_ == Field::kDType ? "a string" : "a list of whole numbers");
      case Place::kNumbers:
        fail_file(file_, printable(name_), ": ", field_name(field_), " holds ", what,
                  ", want whole numbers from 0 to 2^53");
    }
    ASSERT(false);
    return false;
  }

  Place place_ = Place::kStart;
  Field field_ = Field::kDType;
  std::string name_;
  SafetensorsEntry entry_;
  std::array<bool, 3> seen_ = {};  // by Field
  bool seen_metadata_ = false;
};

// {"metadata": {...}, "weight_map": {"lm_head.weight": "model-00002-of-00002.safetensors", ...}}
class IndexReader : public JsonReader {
 public:
  explicit IndexReader(const fs::path& file) : JsonReader(file, "the index") {}

  std::map<std::string, std::string> weight_map;
  bool has_weight_map = false;

  bool key(string_t& key) override {
    if (place_ == Place::kWeightMap) begin_tensor(std::move(key));
    if (place_ == Place::kTop && skipped_depth_ == 0) begin_part(key);
    return true;
  }

  bool start_object(size_t) override { return open("an object"); }
  bool end_object() override { return close(); }
  bool start_array(size_t) override { return open("a list"); }
  bool end_array() override { return close(); }
  bool null() override { return scalar("null"); }
  bool boolean(bool) override { return scalar("true or false"); }
  bool number_integer(number_integer_t) override { return scalar("a number"); }
  bool number_unsigned(number_unsigned_t) override { return scalar("a number"); }
  bool number_float(number_float_t, const string_t&) override { return scalar("a number"); }

  bool string(string_t& text) override {
    if (place_ != Place::kWeightMap) return scalar("a string");
    if (text.empty() || text == "." || text == ".." ||
        text.find_first_of(std::string_view("/\\\0", 3)) != text.npos)
      fail_file(file_, printable(name_), " is in ", text.empty() ? "\"\"" : printable(text),
                ", want the name of a file beside the index");
    weight_map.emplace(std::move(name_), std::move(text));
    return true;
  }

 private:
  enum class Place { kStart, kTop, kWeightMap };

  void begin_part(const std::string& key) {
    in_weight_map_ = key == "weight_map";
    if (in_weight_map_ && std::exchange(has_weight_map, true))
      fail_file(file_, "weight_map is in the index twice");
  }

  void begin_tensor(std::string name) {
    name_ = std::move(name);
    if (weight_map.contains(name_)) fail_file(file_, printable(name_), " is in weight_map twice");
  }

  bool open(std::string_view what) {
    const bool is_object = what == "an object";
    if (place_ == Place::kStart && is_object)
      place_ = Place::kTop;
    else if (place_ == Place::kTop && !in_weight_map_)
      ++skipped_depth_;
    else if (place_ == Place::kTop && is_object)
      place_ = Place::kWeightMap;
    else
      unexpected(what);
    return true;
  }

  bool close() {
    if (place_ == Place::kWeightMap)
      place_ = Place::kTop;
    else if (skipped_depth_ > 0)
      --skipped_depth_;
    return true;
  }

  bool scalar(std::string_view what) {
    const bool is_skipped = place_ == Place::kTop && !in_weight_map_;
    return is_skipped || unexpected(what);
  }

  bool unexpected(std::string_view what) override {
    if (place_ == Place::kStart) fail_file(file_, "the index is ", what, ", want an object");
    if (place_ == Place::kTop)
      fail_file(file_, "weight_map is ", what, ", want a map from tensor to file name");
    fail_file(file_, printable(name_), " is in ", what, ", want a file name");
  }

  Place place_ = Place::kStart;
  bool in_weight_map_ = false;
  int64_t skipped_depth_ = 0;  // objects and lists we are inside of, below a key that is not weight_map
  std::string name_;
};

}  // namespace

std::vector<SafetensorsEntry> read_header_json(std::string_view json, const fs::path& file) {
  HeaderReader reader(file);
  reader.read(json);
  return std::move(reader.entries);
}

std::map<std::string, std::string> read_index_json(std::string_view json, const fs::path& file) {
  IndexReader reader(file);
  reader.read(json);
  if (!reader.has_weight_map) fail_file(file, "has no weight_map");
  return std::move(reader.weight_map);
}

}  // namespace nanovllm
