#include "tokenizer/vocabulary.h"

#include <algorithm>
#include <utility>

#include "base/error.h"
#include "tokenizer/byte_level.h"

namespace nanovllm {
namespace {

constexpr TokenId kMaxTokenId = TokenId{1}
                                << 22;  // 16 times the largest vocabulary known; a table of this size fits

}  // namespace

Vocabulary::Vocabulary(std::vector<Entry> entries, std::string_view where) {
  TokenId largest = -1;
  for (const Entry& entry : entries) {
    if (entry.id > kMaxTokenId)
      fail(ErrorKind::kConfig, where, ": token \"", entry.text, "\" has id ", entry.id, ", want 0 to ",
           kMaxTokenId);
    largest = std::max(largest, entry.id);
  }
  tokens_.resize(size_t(largest + 1));
  ids_.reserve(entries.size());
  for (Entry& entry : entries) {
    Token& token = tokens_[size_t(entry.id)];
    if (token.known && token.text != entry.text)
      fail(ErrorKind::kConfig, where, ": id ", entry.id, " is both \"", token.text, "\" and \"", entry.text,
           "\"");
    token.known = true;
    token.text = std::move(entry.text);
    token.bytes = unspell_bytes(token.text);
    const auto [old, is_new] = ids_.try_emplace(token.text, entry.id);
    if (!is_new && old->second != entry.id)
      fail(ErrorKind::kConfig, where, ": token \"", token.text, "\" has the ids ", old->second, " and ",
           entry.id);
  }
}

std::optional<TokenId> Vocabulary::find(std::string_view text) const {
  const auto found = ids_.find(text);
  if (found == ids_.end()) return std::nullopt;
  return found->second;
}

std::string_view Vocabulary::text(TokenId id) const {
  return has(id) ? std::string_view(tokens_[size_t(id)].text) : std::string_view();
}

std::string_view Vocabulary::bytes(TokenId id) const {
  return has(id) ? std::string_view(tokens_[size_t(id)].bytes) : std::string_view();
}

}  // namespace nanovllm
