#include "tokenizer/bpe.h"

#include <algorithm>
#include <bit>
#include <functional>
#include <limits>
#include <map>

#include "base/assert.h"
#include "base/error.h"
#include "tokenizer/byte_level.h"

namespace nanovllm {
namespace {

// Bytes that no valid UTF-8 holds: overlong leads and leads past U+10FFFF.
bool never_in_utf8(int byte) { return byte == 0xC0 || byte == 0xC1 || byte >= 0xF5; }

bool is_one_symbol(std::string_view text) {
  return !text.empty() &&
         std::count_if(text.begin(), text.end(), [](char c) { return (c & 0xC0) != 0x80; }) == 1;
}

}  // namespace

Bpe::Bpe(const BpeModel& model, const std::vector<std::string>& added_tokens, const Vocabulary& vocabulary,
         std::string_view where)
    : vocabulary_(vocabulary), ignore_merges_(model.ignore_merges), kinds_(size_t(vocabulary.num_tokens())) {
  for (TokenId id = 0; id < vocabulary.num_tokens(); ++id)
    num_bytes_.push_back(int32_t(vocabulary.bytes(id).size()));
  for (const auto& [text, id] : model.vocab) kinds_[size_t(id)] = TokenKind::kModel;
  add_merges(model, where);
  for (const std::string& text : added_tokens) {
    TokenKind& kind = kinds_[size_t(vocabulary.find(text).value())];
    if (kind == TokenKind::kModel) kind = TokenKind::kModelAndAdded;
  }
  if (!model.ignore_merges) check_every_token_is_built(model, where);
  for (int byte = 0; byte < 256; ++byte) {
    const std::string_view symbol = byte_symbol(static_cast<unsigned char>(byte));
    const auto id = find_in_model(symbol);
    if (!id && !never_in_utf8(byte))
      fail(ErrorKind::kConfig, where, ": model.vocab has no \"", symbol, "\" (byte ", byte,
           "), want every byte of UTF-8 in a byte-level vocabulary");
    byte_ids_[size_t(byte)] = id.value_or(-1);
  }
}

std::optional<TokenId> Bpe::find_in_model(std::string_view text) const {
  const auto id = vocabulary_.find(text);
  return id && kinds_[size_t(*id)] != TokenKind::kOther ? id : std::nullopt;
}

size_t Bpe::hash(uint64_t pair) { return size_t((pair * 0x9E3779B97F4A7C15u) >> 32); }

Bpe::Merge& Bpe::slot(uint64_t pair) {
  const size_t mask = merges_.size() - 1;
  size_t i = hash(pair) & mask;
  while (merges_[i].pair != kNoPair && merges_[i].pair != pair) i = (i + 1) & mask;
  return merges_[i];
}

int32_t Bpe::rank_of(TokenId left, TokenId right) const {
  const uint64_t pair = pair_key(left, right);
  const size_t mask = merges_.size() - 1;
  for (size_t i = hash(pair) & mask; merges_[i].pair != kNoPair; i = (i + 1) & mask)
    if (merges_[i].pair == pair) return merges_[i].rank;
  return -1;
}

void Bpe::add_merges(const BpeModel& model, std::string_view where) {
  if (model.merges.empty())
    fail(ErrorKind::kConfig, where, ": model.merges is empty, want the merges of a BPE model");
  merges_.resize(std::bit_ceil(model.merges.size() * 2));
  results_.resize(model.merges.size());
  std::string joined;
  for (size_t rank = 0; rank < model.merges.size(); ++rank) {
    const auto& [left, right] = model.merges[rank];
    const auto id_of = [&](std::string_view text) {
      const auto id = find_in_model(text);
      if (!id)
        fail(ErrorKind::kConfig, where, ": model.merges[", rank, "] needs \"", text,
             "\", which is not in model.vocab");
      return *id;
    };
    const uint64_t pair = pair_key(id_of(left), id_of(right));
    slot(pair) = {pair, int32_t(rank)};  // a pair given twice keeps its last rank, as in Hugging Face
    results_[rank] = id_of(joined.assign(left).append(right));
  }
}

void Bpe::check_every_token_is_built(const BpeModel& model, std::string_view where) const {
  std::vector<bool> built(size_t(vocabulary_.num_tokens()));
  for (const Merge& merge : merges_)
    if (merge.pair != kNoPair) built[size_t(results_[size_t(merge.rank)])] = true;
  for (const auto& [text, id] : model.vocab) {
    if (built[size_t(id)] || is_one_symbol(text) || kinds_[size_t(id)] == TokenKind::kModelAndAdded) continue;
    fail(ErrorKind::kConfig, where, ": no merge of the ", model.merges.size(),
         " in model.merges builds token ", id, " \"", text, "\", want the whole list");
  }
}

int32_t Bpe::next(const std::vector<Symbol>& symbols, int32_t position) const {
  const size_t end = size_t(position) + size_t(num_bytes_[size_t(symbols[size_t(position)].id)]);
  return end < symbols.size() ? int32_t(end) : -1;
}

int32_t Bpe::previous(const std::vector<Symbol>& symbols, int32_t position) const {
  if (position == 0) return -1;
  const Symbol& last = symbols[size_t(position) - 1];
  return last.id == kJoined ? last.rank : position - 1;
}

// Looks up the pair that begins there. Whether it may be merged.
bool Bpe::rank_pair(std::vector<Symbol>& symbols, int32_t position) const {
  Symbol& left = symbols[size_t(position)];
  const int32_t right = next(symbols, position);
  left.rank = right < 0 ? -1 : rank_of(left.id, symbols[size_t(right)].id);
  return left.rank >= 0;
}

void Bpe::merge_pair(std::vector<Symbol>& symbols, int32_t position) const {
  Symbol& left = symbols[size_t(position)];
  symbols[size_t(next(symbols, position))].id = kJoined;
  left.id = results_[size_t(left.rank)];
  symbols[size_t(position + num_bytes_[size_t(left.id)]) - 1] = {kJoined, position};
}

// Rank by rank, and of one rank from left to right: a long word is walked through in order, where a heap would
// jump about in memory that no cache holds. Ends early where a merge makes a pair of lower rank possible, which
// no trained vocabulary has; the heap goes on from there.
void Bpe::merge_in_rank_order(std::vector<Symbol>& symbols) const {
  std::map<int32_t, std::vector<int32_t>> positions;
  for (int32_t i = 0; i < int32_t(symbols.size()); ++i)
    if (symbols[size_t(i)].rank >= 0) positions[symbols[size_t(i)].rank].push_back(i);
  while (!positions.empty()) {
    auto lowest = positions.extract(positions.begin());
    std::vector<int32_t>& of_lowest = lowest.mapped();
    if (!std::is_sorted(of_lowest.begin(), of_lowest.end())) std::sort(of_lowest.begin(), of_lowest.end());
    for (const int32_t position : of_lowest) {
      const Symbol& left = symbols[size_t(position)];
      if (left.id == kJoined || left.rank != lowest.key()) continue;
      merge_pair(symbols, position);
      bool in_order = true;
      for (const int32_t changed : {previous(symbols, position), position}) {
        if (changed < 0 || !rank_pair(symbols, changed)) continue;
        in_order &= symbols[size_t(changed)].rank > lowest.key();
        positions[symbols[size_t(changed)].rank].push_back(changed);
      }
      if (!in_order) return;
    }
  }
}

void Bpe::encode_word(std::string_view word, Scratch& scratch, std::vector<TokenId>& ids) const {
  constexpr size_t kLongWord = 4096;
  if (ignore_merges_) {
    const auto id = vocabulary_.find(spell_bytes(word));
    if (id && kinds_[size_t(*id)] == TokenKind::kModel) return ids.push_back(*id);
  }
  std::vector<Symbol>& symbols = scratch.symbols;
  std::vector<uint64_t>& heap = scratch.heap;
  const auto size = int32_t(word.size());
  symbols.clear();
  symbols.reserve(word.size());
  for (int32_t i = 0; i < size; ++i) {
    const TokenId id = byte_ids_[static_cast<unsigned char>(word[size_t(i)])];
    if (i > 0) symbols.back().rank = rank_of(symbols.back().id, id);
    symbols.push_back({id, -1});
  }
  if (word.size() > kLongWord) merge_in_rank_order(symbols);

  const auto candidate = [&](int32_t position) {
    return uint64_t(uint32_t(symbols[size_t(position)].rank)) << 32 | uint32_t(position);
  };
  heap.clear();
  for (int32_t i = 0; i < size; ++i)
    if (symbols[size_t(i)].id != kJoined && symbols[size_t(i)].rank >= 0) heap.push_back(candidate(i));
  std::make_heap(heap.begin(), heap.end(), std::greater<>());
  const auto offer = [&](int32_t position) {
    if (!rank_pair(symbols, position)) return;
    heap.push_back(candidate(position));
    std::push_heap(heap.begin(), heap.end(), std::greater<>());
  };
  while (!heap.empty()) {
    std::pop_heap(heap.begin(), heap.end(), std::greater<>());
    const auto position = int32_t(heap.back() & 0xFFFFFFFF), rank = int32_t(heap.back() >> 32);
    heap.pop_back();
    const Symbol& left = symbols[size_t(position)];
    if (left.id == kJoined || left.rank != rank) continue;
    merge_pair(symbols, position);
    if (const int32_t before = previous(symbols, position); before >= 0) offer(before);
    offer(position);
  }
  for (int32_t i = 0; i >= 0 && i < size; i = next(symbols, i)) ids.push_back(symbols[size_t(i)].id);
}

// Texts repeat their words, and the ids of one seen before stand in `ids` already: a table of where. A word takes
// the place of another with the same hash.
class Bpe::SeenWords {
 public:
  explicit SeenWords(size_t num_words)
      : words_(std::bit_ceil(std::clamp<size_t>(num_words / 2, 1, kMaxWords))) {}

  // Appends the ids of the word as it was encoded before, or by `encode`.
  template <class Encode>
  void append(std::string_view word, std::vector<TokenId>& ids, Encode&& encode) {
    if (word.size() > kMaxBytes) return encode();
    Place& place = words_[std::hash<std::string_view>()(word) & (words_.size() - 1)];
    const size_t begin = ids.size();
    if (place.word == word)
      for (size_t i = place.begin; i < place.end; ++i) ids.push_back(TokenId(ids[i]));
    else
      encode();
    place = {word, begin, ids.size()};
  }

 private:
  static constexpr size_t kMaxWords = 4096, kMaxBytes = 32;  // longer words seldom come again
  struct Place {
    std::string_view word;
    size_t begin = 0, end = 0;
  };
  std::vector<Place> words_;
};

void Bpe::encode(std::span<const std::string_view> words, std::vector<TokenId>& ids) const {
  constexpr auto kMaxWord = size_t(std::numeric_limits<int32_t>::max());
  SeenWords seen(words.size());
  Scratch scratch;
  for (const std::string_view word : words) {
    ASSERT(word.size() <= kMaxWord);  // Tokenizer::encode refuses longer texts
    seen.append(word, ids, [&] { encode_word(word, scratch, ids); });
  }
}

}  // namespace nanovllm
