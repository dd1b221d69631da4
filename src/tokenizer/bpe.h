// Byte-pair encoding (Sennrich et al. 2016, arXiv:1508.07909): a word starts as its bytes; the adjacent pair
// of the lowest merge rank, leftmost first, is joined until no pair of neighbours has a merge.
//
// O(n log n) in the length of the word: candidates wait in a heap, and one whose pair a merge has changed is
// recognised by its rank when it comes up. Long words go rank by rank instead, which is the same order.
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/token.h"
#include "tokenizer/vocabulary.h"

namespace nanovllm {

struct BpeModel {
  std::vector<Vocabulary::Entry> vocab;
  std::vector<std::pair<std::string_view, std::string_view>> merges;  // by rank, spelled
  bool ignore_merges = false;                                         // a word that is a token is that token
};

// Safe to share between threads.
class Bpe {
 public:
  // vocabulary holds model.vocab and the added tokens, and outlives this. where: the file, for errors.
  // throws Error(kConfig): no merges, a merge of or into an unknown token, a token that no merge builds, a
  // missing byte
  Bpe(const BpeModel& model, const std::vector<std::string>& added_tokens, const Vocabulary& vocabulary,
      std::string_view where);

  // Appends the ids of each word. Words are bytes, not spelled.
  void encode(std::span<const std::string_view> words, std::vector<TokenId>& ids) const;

 private:
  struct Merge {
    uint64_t pair = kNoPair;  // left id in the upper half, right id in the lower
    int32_t rank = 0;
  };
  // One for each byte. A symbol of several bytes stands at its first; its last holds kJoined and where it begins, so
  // that both neighbours are found without links: a long word is all memory traffic.
  struct Symbol {
    TokenId id;
    int32_t rank;  // of the merge with the next symbol; -1 = there is none
  };
  struct Scratch {
    std::vector<Symbol> symbols;
    // Pairs that may be merged: the rank in the upper half, the left symbol's position in the lower, so that the
    // least is the next merge.
    std::vector<uint64_t> heap;
  };
  class SeenWords;
  static constexpr uint64_t kNoPair = ~uint64_t{0};
  static constexpr TokenId kJoined = -1;

  static uint64_t pair_key(TokenId left, TokenId right) {
    return uint64_t(uint32_t(left)) << 32 | uint32_t(right);
  }
  static size_t hash(uint64_t pair);
  Merge& slot(uint64_t pair);
  int32_t rank_of(TokenId left, TokenId right) const;
  void add_merges(const BpeModel& model, std::string_view where);
  void check_every_token_is_built(const BpeModel& model, std::string_view where) const;
  std::optional<TokenId> find_in_model(std::string_view text) const;
  int32_t next(const std::vector<Symbol>& symbols, int32_t position) const;      // -1 = none
  int32_t previous(const std::vector<Symbol>& symbols, int32_t position) const;  // -1 = none
  bool rank_pair(std::vector<Symbol>& symbols, int32_t position) const;
  void merge_pair(std::vector<Symbol>& symbols, int32_t position) const;
  void merge_in_rank_order(std::vector<Symbol>& symbols) const;
  void encode_word(std::string_view word, Scratch& scratch, std::vector<TokenId>& ids) const;

  const Vocabulary& vocabulary_;
  bool ignore_merges_;
  // Under ignore_merges an added token never comes out of a plain word, or a user's text could write control
  // tokens. (One that merges build does come out, as in Hugging Face; no known tokenizer has such.)
  enum class TokenKind : uint8_t { kOther, kModel, kModelAndAdded };
  std::vector<TokenKind> kinds_;       // by id
  std::array<TokenId, 256> byte_ids_;  // -1 for bytes that UTF-8 never has and the vocabulary lacks
  std::vector<Merge> merges_;          // open addressing, a power of two, at most half full
  std::vector<TokenId> results_;       // what a merge makes, by rank
  std::vector<int32_t> num_bytes_;     // by id
};

}  // namespace nanovllm
