// A tokenizer.json small enough to read: the 256 bytes, and one token for each merge. Tests change its
// fields.
#pragma once

#include <nlohmann/json.hpp>
#include <string>
#include <utility>
#include <vector>

#include "tokenizer/byte_level.h"
#include "tokenizer/tokenizer.h"

namespace nanovllm::test {

using Json = nlohmann::json;
using Ids = std::vector<TokenId>;

// Bytes have their own value as id; merges count on from 256.
inline Json tiny_json(const std::vector<std::pair<std::string, std::string>>& merges = {{"h", "e"},
                                                                                        {"l", "l"}}) {
  Json vocab = Json::object(), pairs = Json::array();
  for (int byte = 0; byte < 256; ++byte) vocab[byte_symbol(static_cast<unsigned char>(byte))] = byte;
  for (const auto& [left, right] : merges) {
    pairs.push_back({left, right});
    if (!vocab.contains(left + right)) vocab[left + right] = vocab.size();
  }
  return {{"model", {{"type", "BPE"}, {"vocab", vocab}, {"merges", pairs}}},
          {"pre_tokenizer", {{"type", "ByteLevel"}, {"add_prefix_space", false}, {"use_regex", false}}},
          {"decoder", {{"type", "ByteLevel"}}}};
}

inline Json split_json(const std::string& pattern) {
  const Json split = {{"type", "Split"}, {"pattern", {{"Regex", pattern}}}, {"behavior", "Isolated"}};
  const Json byte_level = {{"type", "ByteLevel"}, {"add_prefix_space", false}, {"use_regex", false}};
  return {{"type", "Sequence"}, {"pretokenizers", {split, byte_level}}};
}

inline Tokenizer parse(const Json& json) { return Tokenizer::parse(json.dump(), "tiny.json"); }

}  // namespace nanovllm::test
