// A model that can tell: like real keys and values, each of its cache entries depends on the whole prefix,
// and a sampled token on everything the batch says of its row. So a wrong slot, block, length, position or
// row gives another text.
#pragma once

#include <algorithm>
#include <bit>
#include <cstdint>
#include <vector>

#include "engine/batch.h"

namespace nanovllm::test {

inline constexpr int kFakeVocab = 64;

inline uint64_t mix(uint64_t x) {
  x = (x ^ (x >> 31)) * 0x9E3779B97F4A7C15;
  return x ^ (x >> 29);
}

inline uint64_t fake_entry(uint64_t before, TokenId token, int position) {
  return mix(before + 7) ^ mix(uint64_t(token) << 32 | uint64_t(position));
}

struct FakeRow {
  float temperature = 0, top_p = 1;
  int top_k = 0;
  uint64_t seed = 0;
  int position = 0, sample_index = 0;
};

// hidden: of all entries that the row sees. Now and then no number, so negative. Greedy rows draw nothing.
inline TokenId fake_sample(uint64_t hidden, FakeRow row) {
  if (row.temperature == 0) row = {.temperature = 0, .position = row.position};
  uint64_t h = mix(hidden ^ std::bit_cast<uint32_t>(row.temperature));
  h = mix(h ^ std::bit_cast<uint32_t>(row.top_p)) ^ mix(row.seed);
  h = mix(h ^ (uint64_t(row.top_k) << 40 | uint64_t(row.sample_index) << 32 | uint64_t(row.position)));
  return h % 199 == 0 ? -1 : TokenId((h >> 16) % kFakeVocab);
}

inline uint64_t fake_attend(uint64_t hidden, uint64_t entry) { return mix(hidden * 3 + entry); }

class FakeModel {
 public:
  // The cache is full of what is none of anyone's business.
  FakeModel(int num_blocks, int block_size)
      : block_size_(block_size), cache_(size_t(num_blocks * block_size)) {
    for (size_t i = 0; i < cache_.size(); ++i) cache_[i] = mix(i);
  }

  std::vector<TokenId> run(const Batch& b) {
    for (int i = 0; i < b.num_block_copies(); ++i) {
      const auto begin_of = [&](int32_t block) { return cache_.begin() + block * block_size_; };
      const auto from = begin_of(b.block_copies[size_t(2 * i)]);
      std::copy(from, from + block_size_, begin_of(b.block_copies[size_t(2 * i + 1)]));
    }
    last_ids_.swap(previous_ids_);
    std::vector<uint64_t> hidden(static_cast<size_t>(b.num_tokens()));
    for (int s = 0; s < b.num_seqs(); ++s)
      for (int t = b.cu_seqlens_q.at(size_t(s)); t < b.cu_seqlens_q.at(size_t(s) + 1); ++t)
        hidden.at(size_t(t)) = forward(b, s, t);
    std::vector<TokenId>& ids = last_ids_;
    ids.clear();
    for (size_t row = 0; row < b.logits_indices.size(); ++row)
      ids.push_back(fake_sample(
          hidden.at(size_t(b.logits_indices[row])),
          {.temperature = b.temperature.at(row),
           .top_p = b.top_p.at(row),
           .top_k = b.top_k.at(row),
           .seed = uint64_t(uint32_t(b.seeds.at(2 * row + 1))) << 32 | uint32_t(b.seeds.at(2 * row)),
           .position = b.sample_positions.at(row),
           .sample_index = b.sample_indices.at(row)}));
    return ids;
  }

 private:
  uint64_t forward(const Batch& b, int s, int t) {
    const auto entry_of = [&](int key) -> uint64_t& {
      const int block = b.block_table.at(size_t(s * b.max_blocks + key / block_size_));
      return cache_.at(size_t(block * block_size_ + key % block_size_));
    };
    const int visible =
        b.seq_lens.at(size_t(s)) - (b.cu_seqlens_q[size_t(s) + 1] - 1 - t);  // keys, own included
    const uint64_t before = visible == 1 ? 0 : entry_of(visible - 2);
    cache_.at(size_t(b.slot_mapping.at(size_t(t)))) =
        fake_entry(before, token_of(b, size_t(t)), b.positions.at(size_t(t)));
    // Every row looks at all its keys where it may be sampled; the others at their own only, to be quick.
    if (std::find(b.logits_indices.begin(), b.logits_indices.end(), t) == b.logits_indices.end())
      return entry_of(visible - 1);
    uint64_t hidden = 0;
    for (int key = 0; key < visible; ++key) hidden = fake_attend(hidden, entry_of(key));
    return hidden;
  }

  TokenId token_of(const Batch& b, size_t t) const {
    return b.token_rows.empty() ? b.token_ids.at(t) : previous_ids_.at(size_t(b.token_rows.at(t)));
  }

  int block_size_;
  std::vector<uint64_t> cache_;
  std::vector<TokenId> last_ids_, previous_ids_;
};

}  // namespace nanovllm::test
