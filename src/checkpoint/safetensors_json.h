// The JSON of safetensors files, read strictly: every key and value is what the format says, and no key comes
// twice.
//
// Read as events rather than into a document, so that memory stays within a small multiple of the text and
// deep nesting costs nothing. What the numbers mean is checked in safetensors.cpp.
#pragma once

#include <cstdint>
#include <filesystem>
#include <map>
#include <string>
#include <string_view>
#include <vector>

namespace nanovllm {

// Beyond it JSON readers do not agree on what a number is.
constexpr uint64_t kMaxSafetensorsNumber = uint64_t{1} << 53;

// A tensor as the header describes it, every number at most kMaxSafetensorsNumber.
struct SafetensorsEntry {
  std::string name, dtype;
  std::vector<uint64_t> shape, offsets;
};

// {"__metadata__": {"format": "pt"}, "lm_head.weight": {"dtype": "BF16", "shape": [8, 4], "data_offsets": [0,
// 64]}} The metadata is checked and dropped; two entries may have the same name. throws Error(kCheckpoint):
// anything else
std::vector<SafetensorsEntry> read_header_json(std::string_view json, const std::filesystem::path& file);

// {"metadata": ..., "weight_map": {"lm_head.weight": "model-00002-of-00002.safetensors"}}: the weight_map.
// throws Error(kCheckpoint): anything else; a value that is not the name of a file in the folder
std::map<std::string, std::string> read_index_json(std::string_view json, const std::filesystem::path& file);

}  // namespace nanovllm
