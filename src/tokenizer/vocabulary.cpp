#include "tokenizer/vocabulary.h"

#include <algorithm>
#include <bit>
#include <functional>

#include "base/error.h"
#include "tokenizer/byte_level.h"

namespace nanovllm {
namespace {

constexpr TokenId kMaxTokenId = TokenId{1}
                                << 22;  // 16 times the largest vocabulary known; a table of this size fits

size_t hash(std::string_view text) { return std::hash<std::string_view>()(text); }

}  // namespace

TokenId& Vocabulary::slot(std::string_view text) {
  const size_t mask = slots_.size() - 1;
  size_t i = hash(text) & mask;
  while (slots_[i] >= 0 && this->text(slots_[i]) != text) i = (i + 1) & mask;
  return slots_[i];
}

Vocabulary::Vocabulary(std::span<const Entry> entries, std::string_view where) {
  TokenId largest = -1;
  size_t pool_size = 0;
  for (const Entry& entry : entries) {
    if (entry.id > kMaxTokenId)
      fail(ErrorKind::kConfig, where, ": token \"", entry.text, "\" has id ", entry.id, ", want 0 to ",
           kMaxTokenId);
    largest = std::max(largest, entry.id);
    pool_size += 2 * entry.text.size();
  }
  tokens_.resize(size_t(largest + 1));
  slots_.resize(std::bit_ceil(2 * entries.size() + 1), -1);
  pool_.reserve(pool_size);
  for (const Entry& entry : entries) {
    Token& token = tokens_[size_t(entry.id)];
    if (token.known) {
      if (text(entry.id) == entry.text) continue;
      fail(ErrorKind::kConfig, where, ": id ", entry.id, " is both \"", text(entry.id), "\" and \"",
           entry.text, "\"");
    }
    TokenId& id = slot(entry.text);
    if (id >= 0)
      fail(ErrorKind::kConfig, where, ": token \"", entry.text, "\" has the ids ", id, " and ", entry.id);
    id = entry.id;
    token = {pool_.size(), uint32_t(entry.text.size()), 0, true};
    pool_ += entry.text;
    append_unspelled(entry.text, pool_);
    token.num_bytes = uint32_t(pool_.size() - token.begin - token.text_size);
  }
}

std::optional<TokenId> Vocabulary::find(std::string_view text) const {
  const size_t mask = slots_.size() - 1;
  for (size_t i = hash(text) & mask; slots_[i] >= 0; i = (i + 1) & mask)
    if (this->text(slots_[i]) == text) return slots_[i];
  return std::nullopt;
}

std::string_view Vocabulary::text(TokenId id) const {
  if (!has(id)) return {};
  const Token& token = tokens_[size_t(id)];
  return std::string_view(pool_).substr(token.begin, token.text_size);
}

std::string_view Vocabulary::bytes(TokenId id) const {
  if (!has(id)) return {};
  const Token& token = tokens_[size_t(id)];
  return std::string_view(pool_).substr(token.begin + token.text_size, token.num_bytes);
}

}  // namespace nanovllm
