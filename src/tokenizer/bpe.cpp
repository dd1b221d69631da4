#include "tokenizer/bpe.h"

#include <algorithm>
#include <bit>
#include <limits>

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

const Bpe::Merge* Bpe::find(TokenId left, TokenId right) const {
  const uint64_t pair = pair_key(left, right);
  const size_t mask = merges_.size() - 1;
  for (size_t i = hash(pair) & mask; merges_[i].pair != kNoPair; i = (i + 1) & mask)
    if (merges_[i].pair == pair) return &merges_[i];
  return nullptr;
}

void Bpe::add_merges(const BpeModel& model, std::string_view where) {
  if (model.merges.empty())
    fail(ErrorKind::kConfig, where, ": model.merges is empty, want the merges of a BPE model");
  merges_.resize(std::bit_ceil(model.merges.size() * 2));
  for (size_t rank = 0; rank < model.merges.size(); ++rank) {
    const auto& [left, right] = model.merges[rank];
    const auto id_of = [&](const std::string& text) {
      const auto id = find_in_model(text);
      if (!id)
        fail(ErrorKind::kConfig, where, ": model.merges[", rank, "] needs \"", text,
             "\", which is not in model.vocab");
      return *id;
    };
    Merge& merge = slot(pair_key(id_of(left), id_of(right)));
    // A pair given twice keeps its last rank, as in Hugging Face.
    merge = {pair_key(id_of(left), id_of(right)), int32_t(rank), id_of(left + right)};
  }
}

void Bpe::check_every_token_is_built(const BpeModel& model, std::string_view where) const {
  std::vector<bool> built(size_t(vocabulary_.num_tokens()));
  for (const Merge& merge : merges_)
    if (merge.pair != kNoPair) built[size_t(merge.result)] = true;
  for (const auto& [text, id] : model.vocab) {
    if (built[size_t(id)] || is_one_symbol(text) || kinds_[size_t(id)] == TokenKind::kModelAndAdded) continue;
    fail(ErrorKind::kConfig, where, ": no merge of the ", model.merges.size(),
         " in model.merges builds token ", id, " \"", text, "\", want the whole list");
  }
}

void Bpe::add_candidate(Scratch& scratch, int32_t position) const {
  const Symbol& left = scratch.symbols[size_t(position)];
  if (left.next < 0) return;
  const Symbol& right = scratch.symbols[size_t(left.next)];
  const Merge* merge = find(left.id, right.id);
  if (!merge) return;
  scratch.heap.push_back({merge->rank, position, left.length + right.length, merge->result});
}

void Bpe::encode_word(std::string_view word, Scratch& scratch, std::vector<TokenId>& ids) const {
  constexpr auto later = [](const Candidate& a, const Candidate& b) {
    return a.rank != b.rank ? a.rank > b.rank : a.position > b.position;
  };
  std::vector<Symbol>& symbols = scratch.symbols;
  std::vector<Candidate>& heap = scratch.heap;
  const auto size = int32_t(word.size());
  symbols.clear();
  heap.clear();
  for (int32_t i = 0; i < size; ++i)
    symbols.push_back(
        {byte_ids_[static_cast<unsigned char>(word[size_t(i)])], i - 1, i + 1 < size ? i + 1 : -1, 1});
  for (int32_t i = 0; i < size; ++i) add_candidate(scratch, i);
  std::make_heap(heap.begin(), heap.end(), later);

  const auto offer = [&](int32_t position) {
    const size_t before = heap.size();
    add_candidate(scratch, position);
    if (heap.size() > before) std::push_heap(heap.begin(), heap.end(), later);
  };
  while (!heap.empty()) {
    std::pop_heap(heap.begin(), heap.end(), later);
    const Candidate best = heap.back();
    heap.pop_back();
    Symbol& left = symbols[size_t(best.position)];
    // A symbol only ever grows to the right, so the same length means the same pair.
    if (left.length == 0 || left.next < 0) continue;
    Symbol& right = symbols[size_t(left.next)];
    if (left.length + right.length != best.length) continue;
    left.id = best.result;
    left.length = best.length;
    left.next = right.next;
    right.length = 0;
    if (left.next >= 0) symbols[size_t(left.next)].previous = best.position;
    if (left.previous >= 0) offer(left.previous);
    offer(best.position);
  }
  for (int32_t i = 0; i >= 0 && i < size; i = symbols[size_t(i)].next) ids.push_back(symbols[size_t(i)].id);
}

void Bpe::encode(std::span<const std::string_view> words, std::vector<TokenId>& ids) const {
  constexpr auto kMaxWord = size_t(std::numeric_limits<int32_t>::max());
  Scratch scratch;
  for (const std::string_view word : words) {
    ASSERT(word.size() <= kMaxWord);  // Tokenizer::encode refuses longer texts
    if (ignore_merges_) {
      const auto id = vocabulary_.find(spell_bytes(word));
      if (id && kinds_[size_t(*id)] == TokenKind::kModel) {
        ids.push_back(*id);
        continue;
      }
    }
    encode_word(word, scratch, ids);
  }
}

}  // namespace nanovllm
