// safetensors: 8 bytes little-endian header length, a JSON header, then the tensors' bytes end to end.
// https://github.com/huggingface/safetensors#format
//
// Everything the header says is checked against the file before anything uses it, as strictly as the
// reference implementation does and in places more so: the tensors fill the data section without overlap,
// hole or rest, and a key that comes twice is an error. Memory taken stays within a small multiple of the
// file's size, whatever the header claims.
#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "checkpoint/checkpoint.h"
#include "tensor/dtype.h"

namespace nanovllm {

struct SafetensorsTensor {
  std::string name;
  std::string dtype_name;      // as the file writes it: "BF16"
  std::optional<DType> dtype;  // none: one that we cannot read
  std::vector<int64_t> shape;
  std::span<const std::byte> data;
};

// The tensors of a whole file in memory, in the order of their data; `file` is for messages.
// throws Error(kCheckpoint): not a safetensors file, or a damaged one
std::vector<SafetensorsTensor> parse_safetensors(std::span<const std::byte> bytes,
                                                 const std::filesystem::path& file);

// model.safetensors.index.json: the shard (a plain file name) of each tensor.
// throws Error(kCheckpoint): not JSON, no weight_map, a tensor twice, a shard outside the folder
std::map<std::string, std::string> parse_safetensors_index(std::string_view text,
                                                           const std::filesystem::path& file);

// throws Error: as parse_safetensors, or the file cannot be read
Checkpoint open_safetensors(const std::filesystem::path& file);

// The shards named by an index, which lie beside it. Shards and index must agree on what lies where.
// throws Error: as the two parsers; a shard is missing; or shards and index disagree
Checkpoint open_sharded_safetensors(const std::filesystem::path& index_file);

}  // namespace nanovllm
