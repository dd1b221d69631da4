#include "checkpoint/checkpoint.h"

#include <algorithm>
#include <system_error>
#include <utility>

#include "base/assert.h"
#include "base/error.h"
#include "checkpoint/printable.h"
#include "checkpoint/safetensors.h"

namespace nanovllm {
namespace {

namespace fs = std::filesystem;

constexpr const char* kSingleFile = "model.safetensors";
constexpr const char* kIndexFile = "model.safetensors.index.json";

void check_folder(const fs::path& folder) {
  std::error_code error;
  const fs::file_status status = fs::status(folder, error);
  if (status.type() == fs::file_type::not_found) fail_file(folder, "no such folder, want a model folder");
  if (status.type() == fs::file_type::none) fail_file(folder, "cannot read: ", error.message());
  if (status.type() != fs::file_type::directory)
    fail_file(folder, "is a file, want the model folder that holds it");
}

// True also for a link to nothing, so that opening it says what is wrong.
bool is_there(const fs::path& path) {
  std::error_code error;
  return fs::exists(fs::symlink_status(path, error));
}

[[noreturn]] void fail_without_weights(const fs::path& folder) {
  std::vector<std::string> others;  // weights that we do not read
  std::error_code error;
  for (fs::directory_iterator it(folder, error), end; !error && it != end; it.increment(error)) {
    const std::string extension = it->path().extension().string();
    for (const char* known : {".safetensors", ".bin", ".gguf", ".pt", ".pth"})
      if (extension == known) others.push_back(it->path().filename().string());
  }
  std::sort(others.begin(), others.end());
  const std::string there =
      others.empty() ? "" : " (it holds " + first_few(others) + ", which we do not read)";
  fail_file(folder, "no weights, want ", kSingleFile, " or ", kIndexFile, there);
}

bool by_name(const Checkpoint::Entry& a, const Checkpoint::Entry& b) { return a.tensor.name < b.tensor.name; }

}  // namespace

Checkpoint::Checkpoint(std::vector<MappedFile> files, std::vector<Entry> entries)
    : files_(std::move(files)), entries_(std::move(entries)) {
  std::sort(entries_.begin(), entries_.end(), by_name);
  for (size_t i = 1; i < entries_.size(); ++i) ASSERT(by_name(entries_[i - 1], entries_[i]));
}

const CheckpointTensor* Checkpoint::find(std::string_view name) const {
  const auto it =
      std::lower_bound(entries_.begin(), entries_.end(), name,
                       [](const Entry& entry, std::string_view n) { return entry.tensor.name < n; });
  if (it == entries_.end() || it->tensor.name != name) return nullptr;
  if (it->unreadable_dtype)
    fail(ErrorKind::kUnsupported, it->tensor.file.string(), ": ", printable(name), " is ",
         printable(*it->unreadable_dtype), ", want F32, F16 or BF16 (convert the checkpoint)");
  return &it->tensor;
}

size_t Checkpoint::data_bytes() const {
  size_t bytes = 0;
  for (const Entry& entry : entries_) bytes += entry.tensor.data.size();
  return bytes;
}

std::vector<std::string_view> Checkpoint::names() const {
  std::vector<std::string_view> names;
  names.reserve(entries_.size());
  for (const Entry& entry : entries_) names.push_back(entry.tensor.name);
  return names;
}

Checkpoint open_checkpoint(const fs::path& model_folder) {
  check_folder(model_folder);
  if (is_there(model_folder / kSingleFile)) return open_safetensors(model_folder / kSingleFile);
  if (is_there(model_folder / kIndexFile)) return open_sharded_safetensors(model_folder / kIndexFile);
  fail_without_weights(model_folder);
}

}  // namespace nanovllm
