// The tokens by id and by text: the model's vocabulary and the added tokens together. Built whole, then
// const.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/token.h"

namespace nanovllm {

class Vocabulary {
 public:
  struct Entry {
    std::string_view text;  // as spelled in the file
    TokenId id;
  };
  // where: the file, for errors. throws Error(kConfig): an id or a text given twice, an id below 0 or above
  // 2^22
  Vocabulary(std::span<const Entry> entries, std::string_view where);
  Vocabulary(const Vocabulary&) = delete;
  Vocabulary& operator=(const Vocabulary&) = delete;
  Vocabulary(Vocabulary&&) = default;

  int num_tokens() const { return int(tokens_.size()); }  // largest id + 1
  std::optional<TokenId> find(std::string_view text) const;
  bool has(TokenId id) const { return id >= 0 && id < num_tokens() && tokens_[size_t(id)].known; }
  std::string_view text(TokenId id) const;   // "" for unknown ids
  std::string_view bytes(TokenId id) const;  // "" for unknown ids

 private:
  struct Token {
    size_t begin = 0;  // in pool_: the text, then the bytes
    uint32_t text_size = 0, num_bytes = 0;
    bool known = false;
  };
  TokenId& slot(std::string_view text);

  std::string pool_;
  std::vector<Token> tokens_;   // by id
  std::vector<TokenId> slots_;  // by text, open addressing: a power of two, at most half full, -1 = empty
};

}  // namespace nanovllm
