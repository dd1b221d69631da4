// The named tensors of a model folder, whatever format they are stored in.
//
// The files stay mapped while the Checkpoint lives, and nothing is copied: a tensor's data is the file's own
// bytes. It may begin at any address (a safetensors header has any length), so copy it out with memcpy or
// unaligned loads. Nobody may change the files meanwhile.
#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/file.h"
#include "tensor/dtype.h"

namespace nanovllm {

struct CheckpointTensor {
  std::string name;
  DType dtype;
  std::vector<int64_t> shape;
  std::span<const std::byte> data;  // dtype_bytes(dtype) * product of shape; of any alignment
  std::filesystem::path file;       // for messages
};

// Immutable, so that any number of threads may read it.
class Checkpoint {
 public:
  struct Entry {
    CheckpointTensor tensor;
    // The file's word for a dtype that we cannot read; then find() refuses the tensor.
    std::optional<std::string> unreadable_dtype;
  };

  // For the readers of the formats: entries with distinct names, whose data lies in the files.
  Checkpoint(std::vector<MappedFile> files, std::vector<Entry> entries);

  // null: there is no tensor of this name.
  // throws Error(kUnsupported): it is of a dtype that we cannot read (F8_E4M3, I64 ...)
  const CheckpointTensor* find(std::string_view name) const;

  // Of all tensors together.
  size_t data_bytes() const;

  // All of them, also those that find() refuses; sorted. Valid while the Checkpoint lives, moved or not.
  std::vector<std::string_view> names() const;

 private:
  std::vector<MappedFile> files_;
  std::vector<Entry> entries_;  // sorted by name
};

// Opens what the folder holds: model.safetensors, else the shards that model.safetensors.index.json lists
// (the single file goes first because that is where Hugging Face transformers looks first). throws
// Error(kCheckpoint): no such folder, no weights in it, or damaged ones; Error(kDevice): cannot read a file
Checkpoint open_checkpoint(const std::filesystem::path& model_folder);

}  // namespace nanovllm
