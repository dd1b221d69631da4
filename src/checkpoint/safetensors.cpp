#include "checkpoint/safetensors.h"

#include <algorithm>
#include <array>
#include <cctype>
#include <nlohmann/json.hpp>
#include <tuple>
#include <utility>

#include "base/error.h"
#include "base/file.h"
#include "checkpoint/printable.h"

namespace nanovllm {
namespace {

namespace fs = std::filesystem;

constexpr size_t kLengthBytes = 8;
constexpr uint64_t kMaxHeaderBytes = 100'000'000;   // the reference implementation's limit
constexpr uint64_t kMaxNumber = uint64_t{1} << 53;  // beyond it, JSON readers do not agree what a number is
constexpr std::string_view kMetadata = "__metadata__";

struct FileDType {
  std::string_view name;
  uint64_t bits;
  std::optional<DType> dtype;  // none: not read here; the size is known all the same, and checked
};

constexpr FileDType kFileDTypes[] = {
    {"F32", 32, DType::kF32},
    {"F16", 16, DType::kF16},
    {"BF16", 16, DType::kBF16},
    {"I32", 32, DType::kI32},
    {"F64", 64, {}},
    {"I64", 64, {}},
    {"U64", 64, {}},
    {"C64", 64, {}},
    {"U32", 32, {}},
    {"I16", 16, {}},
    {"U16", 16, {}},
    {"I8", 8, {}},
    {"U8", 8, {}},
    {"BOOL", 8, {}},
    {"F8_E4M3", 8, {}},
    {"F8_E5M2", 8, {}},
    {"F8_E8M0", 8, {}},
    {"F6_E2M3", 6, {}},
    {"F6_E3M2", 6, {}},
    {"F4", 4, {}},
};

const FileDType* find_file_dtype(std::string_view name) {
  for (const FileDType& known : kFileDTypes)
    if (known.name == name) return &known;
  return nullptr;
}

template <class... Parts>
[[noreturn]] void fail_file(const fs::path& file, const Parts&... parts) {
  fail(ErrorKind::kCheckpoint, file.string(), ": ", parts...);
}

template <class Number>
std::string list(const std::vector<Number>& values) {
  std::string text = "[";
  for (size_t i = 0; i < values.size(); ++i) {
    if (i) text += ", ";
    if (i == 8) return text + "...]";
    text += std::to_string(values[i]);
  }
  return text + "]";
}

bool begins_with_tag(std::string_view text, std::string_view tag) {
  return text.size() >= tag.size() && std::equal(tag.begin(), tag.end(), text.begin(), [](char a, char b) {
           return a == std::tolower(static_cast<unsigned char>(b));
         });
}

// What is found in place of weights when a download went wrong.
void check_not_a_stand_in(std::string_view text, const fs::path& file) {
  if (text.empty()) fail_file(file, "is empty (download it again)");
  if (text.starts_with("version https://git-lfs.github.com/spec/"))
    fail_file(file, "is a Git LFS pointer, not the weights: run git lfs pull");
  const std::string_view head = text.substr(std::min(text.find_first_not_of(" \t\r\n"), text.size()));
  if (begins_with_tag(head, "<!doctype html") || begins_with_tag(head, "<html"))
    fail_file(file, "is an HTML page, not the weights (download it again)");
}

// JSON as events. Nothing is built but what a reader keeps, a key that comes twice is seen, and the parser
// does not recurse. Each event that a reader does not expect ends in unexpected(), which throws.
class JsonReader : public nlohmann::json_sax<nlohmann::json> {
 public:
  JsonReader(const fs::path& file, std::string_view part) : file_(file), part_(part) {}

  void read(std::string_view json) {
    // The library takes a zero byte for the end of the text, and does not look behind it.
    const size_t zero = json.find('\0');
    if (zero != std::string_view::npos) fail_syntax(zero);
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
  [[noreturn]] void fail_syntax(size_t position) const {
    fail_file(file_, part_, " is not JSON from byte ", position, " on (download it again)");
  }

  std::string_view part_;
};

// A tensor as the header describes it, not yet checked.
struct HeaderEntry {
  std::string name;
  std::optional<std::string> dtype;
  std::optional<std::vector<uint64_t>> shape, offsets;
};

// {"__metadata__": {"format": "pt"}, "lm_head.weight": {"dtype": "BF16", "shape": [8, 4], "data_offsets": [0,
// 64]}, ...}
class HeaderReader : public JsonReader {
 public:
  explicit HeaderReader(const fs::path& file) : JsonReader(file, "the header") {}

  std::vector<HeaderEntry> entries;

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
    if (number > kMaxNumber) return unexpected("a number above 2^53");
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

  std::vector<uint64_t>& numbers() { return field_ == Field::kShape ? *entry_.shape : *entry_.offsets; }

  void begin_entry(std::string name) {
    name_ = std::move(name);
    if (name_ == kMetadata && std::exchange(seen_metadata_, true))
      fail_file(file_, kMetadata, " is in the header twice");
    entry_ = {};
  }

  void begin_field(const std::string& key) {
    for (const Field field : {Field::kDType, Field::kShape, Field::kOffsets}) {
      if (key != field_name(field)) continue;
      if (has(field)) fail_file(file_, printable(name_), " has ", key, " twice");
      field_ = field;
      if (field == Field::kDType) entry_.dtype.emplace();
      if (field == Field::kShape) entry_.shape.emplace();
      if (field == Field::kOffsets) entry_.offsets.emplace();
      return;
    }
    fail_file(file_, printable(name_), " has a key ", printable(key),
              ", want dtype, shape and data_offsets only");
  }

  void end_entry() {
    for (const Field field : {Field::kDType, Field::kShape, Field::kOffsets})
      if (!has(field)) fail_file(file_, printable(name_), " has no ", field_name(field));
    entry_.name = std::move(name_);
    entries.push_back(std::move(entry_));
  }

  bool has(Field field) const {
    if (field == Field::kDType) return entry_.dtype.has_value();
    return (field == Field::kShape ? entry_.shape : entry_.offsets).has_value();
  }

  bool unexpected(std::string_view what) override {
    switch (place_) {
      case Place::kStart:
        fail_file(file_, "the header is ", what, ", want an object");
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
  HeaderEntry entry_;
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

// The JSON text of the header; the data follows it directly.
std::string_view find_header(std::string_view text, const fs::path& file) {
  check_not_a_stand_in(text, file);
  if (text.size() < kLengthBytes)
    fail_file(file, "has ", text.size(), " bytes, want at least ", kLengthBytes, " (download it again)");
  uint64_t length = 0;
  for (size_t i = 0; i < kLengthBytes; ++i)
    length |= uint64_t{static_cast<unsigned char>(text[i])} << (8 * i);
  const uint64_t room = text.size() - kLengthBytes;
  if (length == 0 || length > kMaxHeaderBytes)
    fail_file(file, "is not a safetensors file: it begins with \"", printable(text.substr(0, kLengthBytes)),
              "\", which is a header of ", length, " bytes, want 1 to ", kMaxHeaderBytes);
  if (length > room)
    fail_file(file, "has ", text.size(), " bytes, but its header alone has ", length, " (download it again)");
  const std::string_view header = text.substr(kLengthBytes, length);
  if (header.front() != '{') fail_file(file, "the header is not a JSON object (download it again)");
  return header;
}

void check_names_differ(const std::vector<HeaderEntry>& entries, const fs::path& file) {
  std::vector<std::string_view> names;
  names.reserve(entries.size());
  for (const HeaderEntry& entry : entries) names.push_back(entry.name);
  std::sort(names.begin(), names.end());
  const auto twice = std::adjacent_find(names.begin(), names.end());
  if (twice != names.end()) fail_file(file, printable(*twice), " is in the header twice");
}

// The tensor's size follows from its dtype and shape; data_offsets must say the same.
void check_size(const HeaderEntry& entry, const fs::path& file) {
  const std::vector<uint64_t>& offsets = *entry.offsets;
  if (offsets.size() != 2)
    fail_file(file, printable(entry.name), ": data_offsets has ", offsets.size(),
              " numbers, want begin and end");
  if (offsets[0] > offsets[1])
    fail_file(file, printable(entry.name), ": data_offsets are ", list(offsets), ", want begin <= end");

  uint64_t num_elements = 1;
  for (const uint64_t dim : *entry.shape) {
    if (dim != 0 && num_elements > kMaxNumber / dim)
      fail_file(file, printable(entry.name), ": shape ", list(*entry.shape), " has more than 2^53 elements");
    num_elements *= dim;
  }

  const FileDType* known = find_file_dtype(*entry.dtype);
  if (!known) return;
  const uint64_t bits = num_elements * known->bits;
  if (bits % 8 != 0 || bits / 8 != offsets[1] - offsets[0])
    fail_file(file, printable(entry.name), " is ", list(*entry.shape), " ", known->name, ", which is ", bits,
              " bits, but data_offsets ", list(offsets), " hold ", offsets[1] - offsets[0], " bytes");
}

// Entries in the order of their data fill it without overlap, hole or rest.
void check_coverage(const std::vector<HeaderEntry>& entries, uint64_t data_bytes, const fs::path& file) {
  uint64_t end = 0;
  for (size_t i = 0; i < entries.size(); ++i) {
    const std::vector<uint64_t>& offsets = *entries[i].offsets;
    if (offsets[0] < end)
      fail_file(file, printable(entries[i].name), " overlaps ", printable(entries[i - 1].name),
                ": it begins at ", offsets[0], ", before ", end);
    if (offsets[0] > end)
      fail_file(file, "bytes ", end, " to ", offsets[0], " of the data, before ", printable(entries[i].name),
                ", belong to no tensor");
    end = offsets[1];
  }
  if (end > data_bytes)
    fail_file(file, "has ", data_bytes, " bytes of data, want ", end,
              ": it is cut short (download it again)");
  if (end < data_bytes)
    fail_file(file, "has ", data_bytes, " bytes of data, want ", end, ": the last ", data_bytes - end,
              " belong to no tensor");
}

void append_entries(std::vector<Checkpoint::Entry>& entries, const MappedFile& file) {
  for (SafetensorsTensor& tensor : parse_safetensors(file.bytes(), file.path()))
    entries.push_back(
        {.tensor = {std::move(tensor.name), tensor.dtype.value_or(DType::kF32), std::move(tensor.shape),
                    tensor.data, file.path()},
         .unreadable_dtype = tensor.dtype ? std::nullopt : std::optional(std::move(tensor.dtype_name))});
}

std::vector<fs::path> find_shards(const std::map<std::string, std::string>& weight_map,
                                  const fs::path& index_file) {
  std::vector<std::string> names;
  for (const auto& [tensor, shard] : weight_map) names.push_back(shard);
  std::sort(names.begin(), names.end());
  names.erase(std::unique(names.begin(), names.end()), names.end());

  std::vector<fs::path> shards;
  std::vector<std::string> missing;
  for (const std::string& name : names) {
    std::error_code error;
    shards.push_back(index_file.parent_path() / name);
    if (!fs::exists(shards.back(), error)) missing.push_back(name);
  }
  if (!missing.empty())
    fail_file(index_file, missing.size(), " of ", names.size(), " shards are missing: ", first_few(missing),
              " (download them)");
  return shards;
}

// Every tensor is in the shard that the index names, and nowhere else.
void check_index(const std::map<std::string, std::string>& weight_map,
                 const std::vector<Checkpoint::Entry>& entries, const fs::path& index_file) {
  std::map<std::string_view, const Checkpoint::Entry*> seen;
  std::vector<std::string> twice, unlisted, elsewhere, missing;
  for (const Checkpoint::Entry& entry : entries) {
    const std::string& name = entry.tensor.name;
    const std::string shard = entry.tensor.file.filename().string();
    const auto [first, is_new] = seen.emplace(name, &entry);
    const auto listed = weight_map.find(name);
    if (!is_new)
      twice.push_back(name + " in " + first->second->tensor.file.filename().string() + " and " + shard);
    else if (listed == weight_map.end())
      unlisted.push_back(name + " in " + shard);
    else if (listed->second != shard)
      elsewhere.push_back(name + " in " + shard + ", listed in " + listed->second);
  }
  for (const auto& [name, shard] : weight_map)
    if (!seen.contains(name)) missing.push_back(name + " of " + shard);

  const auto refuse = [&](const std::vector<std::string>& names, std::string_view what) {
    if (!names.empty()) fail_file(index_file, names.size(), " tensors ", what, ": ", first_few(names));
  };
  refuse(missing, "are listed but not in their shards (download those again)");
  refuse(twice, "are in two shards");
  refuse(unlisted, "are in the shards but not listed");
  refuse(elsewhere, "are in other shards than listed");
}

}  // namespace

std::vector<SafetensorsTensor> parse_safetensors(std::span<const std::byte> bytes, const fs::path& file) {
  const std::string_view text(reinterpret_cast<const char*>(bytes.data()), bytes.size());
  const std::string_view header = find_header(text, file);
  const std::span<const std::byte> data = bytes.subspan(kLengthBytes + header.size());

  HeaderReader reader(file);
  reader.read(header);
  std::vector<HeaderEntry>& entries = reader.entries;
  check_names_differ(entries, file);
  for (const HeaderEntry& entry : entries) check_size(entry, file);
  std::sort(entries.begin(), entries.end(),
            [](const HeaderEntry& a, const HeaderEntry& b) { return *a.offsets < *b.offsets; });
  check_coverage(entries, data.size(), file);

  std::vector<SafetensorsTensor> tensors;
  tensors.reserve(entries.size());
  for (HeaderEntry& entry : entries) {
    const FileDType* known = find_file_dtype(*entry.dtype);
    const uint64_t begin = (*entry.offsets)[0], end = (*entry.offsets)[1];
    tensors.push_back({.name = std::move(entry.name),
                       .dtype_name = std::move(*entry.dtype),
                       .dtype = known ? known->dtype : std::nullopt,
                       .shape = {entry.shape->begin(), entry.shape->end()},
                       .data = data.subspan(begin, end - begin)});
  }
  return tensors;
}

std::map<std::string, std::string> parse_safetensors_index(std::string_view text, const fs::path& file) {
  check_not_a_stand_in(text, file);
  IndexReader reader(file);
  reader.read(text);
  if (!reader.has_weight_map) fail_file(file, "has no weight_map");
  if (reader.weight_map.empty()) fail_file(file, "weight_map is empty");
  return std::move(reader.weight_map);
}

Checkpoint open_safetensors(const fs::path& file) {
  std::vector<MappedFile> files;
  files.emplace_back(file);
  std::vector<Checkpoint::Entry> entries;
  append_entries(entries, files.back());
  return Checkpoint(std::move(files), std::move(entries));
}

Checkpoint open_sharded_safetensors(const fs::path& index_file) {
  const std::map<std::string, std::string> weight_map =
      parse_safetensors_index(MappedFile(index_file).text(), index_file);
  std::vector<MappedFile> files;
  std::vector<Checkpoint::Entry> entries;
  for (const fs::path& shard : find_shards(weight_map, index_file)) {
    files.emplace_back(shard);
    append_entries(entries, files.back());
  }
  check_index(weight_map, entries, index_file);
  return Checkpoint(std::move(files), std::move(entries));
}

}  // namespace nanovllm
