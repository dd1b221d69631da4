#include "checkpoint/safetensors.h"

#include <algorithm>
#include <cctype>
#include <utility>

#include "base/file.h"
#include "checkpoint/printable.h"
#include "checkpoint/safetensors_json.h"

namespace nanovllm {
namespace {

namespace fs = std::filesystem;

constexpr size_t kLengthBytes = 8;
constexpr uint64_t kMaxHeaderBytes = 100'000'000;  // the reference implementation's limit

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

void check_names_differ(const std::vector<SafetensorsEntry>& entries, const fs::path& file) {
  std::vector<std::string_view> names;
  names.reserve(entries.size());
  for (const SafetensorsEntry& entry : entries) names.push_back(entry.name);
  std::sort(names.begin(), names.end());
  const auto twice = std::adjacent_find(names.begin(), names.end());
  if (twice != names.end()) fail_file(file, printable(*twice), " is in the header twice");
}

// The tensor's size follows from its dtype and shape; data_offsets must say the same.
void check_size(const SafetensorsEntry& entry, const fs::path& file) {
  const std::vector<uint64_t>& offsets = entry.offsets;
  if (offsets.size() != 2)
    fail_file(file, printable(entry.name), ": data_offsets has ", offsets.size(),
              " numbers, want begin and end");
  if (offsets[0] > offsets[1])
    fail_file(file, printable(entry.name), ": data_offsets are ", list(offsets), ", want begin <= end");

  uint64_t num_elements = 1;
  for (const uint64_t dim : entry.shape) {
    if (dim != 0 && num_elements > kMaxSafetensorsNumber / dim)
      fail_file(file, printable(entry.name), ": shape ", list(entry.shape), " has more than 2^53 elements");
    num_elements *= dim;
  }

  const FileDType* known = find_file_dtype(entry.dtype);
  if (!known) return;
  const uint64_t bits = num_elements * known->bits;
  if (bits % 8 != 0 || bits / 8 != offsets[1] - offsets[0])
    fail_file(file, printable(entry.name), " is ", list(entry.shape), " ", known->name, ", which is ", bits,
              " bits, but data_offsets ", list(offsets), " hold ", offsets[1] - offsets[0], " bytes");
}

// Entries in the order of their data fill it without overlap, hole or rest.
void check_coverage(const std::vector<SafetensorsEntry>& entries, uint64_t data_bytes, const fs::path& file) {
  uint64_t end = 0;
  for (size_t i = 0; i < entries.size(); ++i) {
    const std::vector<uint64_t>& offsets = entries[i].offsets;
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
    if (!names.empty())
      fail_file(index_file, "tensors ", what, " (", names.size(), " in all): ", first_few(names));
  };
  refuse(missing, "that are listed but not in their shards, download those again");
  refuse(twice, "that are in two shards");
  refuse(unlisted, "that are in the shards but not listed");
  refuse(elsewhere, "that are in other shards than listed");
}

}  // namespace

std::vector<SafetensorsTensor> parse_safetensors(std::span<const std::byte> bytes, const fs::path& file) {
  const std::string_view text(reinterpret_cast<const char*>(bytes.data()), bytes.size());
  const std::string_view header = find_header(text, file);
  const std::span<const std::byte> data = bytes.subspan(kLengthBytes + header.size());

  std::vector<SafetensorsEntry> entries = read_header_json(header, file);
  check_names_differ(entries, file);
  for (const SafetensorsEntry& entry : entries) check_size(entry, file);
  std::sort(entries.begin(), entries.end(),
            [](const SafetensorsEntry& a, const SafetensorsEntry& b) { return a.offsets < b.offsets; });
  check_coverage(entries, data.size(), file);

  std::vector<SafetensorsTensor> tensors;
  tensors.reserve(entries.size());
  for (SafetensorsEntry& entry : entries) {
    const FileDType* known = find_file_dtype(entry.dtype);
    const uint64_t begin = entry.offsets[0], end = entry.offsets[1];
    tensors.push_back({.name = std::move(entry.name),
                       .dtype_name = std::move(entry.dtype),
                       .dtype = known ? known->dtype : std::nullopt,
                       .shape = {entry.shape.begin(), entry.shape.end()},
                       .data = data.subspan(begin, end - begin)});
  }
  return tensors;
}

std::map<std::string, std::string> parse_safetensors_index(std::string_view text, const fs::path& file) {
  check_not_a_stand_in(text, file);
  std::map<std::string, std::string> weight_map = read_index_json(text, file);
  if (weight_map.empty()) fail_file(file, "weight_map is empty");
  return weight_map;
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
