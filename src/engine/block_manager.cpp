#include "engine/block_manager.h"

#include <algorithm>
#include <bit>

#include "base/assert.h"
#include "base/error.h"
#include "base/random.h"

namespace nanovllm {

// Multiply and fold, token by token (as wyhash does); keyed by a seed that nobody outside knows.
uint64_t content_hash(uint64_t seed, uint64_t parent, std::span<const TokenId> tokens) {
  const auto fold = [](uint64_t a, uint64_t b) {
    __extension__ typedef unsigned __int128 Wide;
    const Wide product = Wide(a) * b;
    return uint64_t(product) ^ uint64_t(product >> 64);
  };
  uint64_t hash = fold(seed ^ parent ^ 0x9E3779B97F4A7C15, 0xD6E8FEB86659FD93);
  for (const TokenId token : tokens) hash = fold(hash ^ uint32_t(token), seed | 0x8000000000000001);
  return hash;
}

BlockManager::BlockManager(int num_blocks, int block_size, PrefixCaching caching, ContentHash hash)
    : block_size_(block_size), caching_(caching), hash_(hash), hash_seed_(random_seed()) {
  ASSERT(num_blocks >= 1 && block_size >= 1);
  blocks_.resize(size_t(num_blocks));
  tokens_.resize(size_t(num_blocks) * size_t(block_size));
  buckets_.assign(std::bit_ceil(size_t(num_blocks)), kNone);
  free_blocks_.reserve(size_t(num_blocks));
  for (int block = num_blocks - 1; block >= 0; --block) free_blocks_.push_back(block);
}

std::span<TokenId> BlockManager::tokens_of(int32_t block) {
  return std::span(tokens_).subspan(size_t(block) * size_t(block_size_), size_t(block_size_));
}
std::span<const TokenId> BlockManager::tokens_of(int32_t block) const {
  return std::span(tokens_).subspan(size_t(block) * size_t(block_size_), size_t(block_size_));
}
std::span<const TokenId> BlockManager::logical_tokens(const Sequence& sequence, int logical) const {
  return std::span(sequence.token_ids).subspan(size_t(logical) * size_t(block_size_), size_t(block_size_));
}

int32_t& BlockManager::bucket(uint64_t parent, std::span<const TokenId> tokens) {
  return buckets_[hash_(hash_seed_, parent, tokens) & (buckets_.size() - 1)];
}

int32_t BlockManager::find(uint64_t parent, std::span<const TokenId> tokens, const std::string& salt) const {
  int32_t block = buckets_[hash_(hash_seed_, parent, tokens) & (buckets_.size() - 1)];
  for (; block != kNone; block = blocks_[size_t(block)].next_in_bucket) {
    const Block& candidate = blocks_[size_t(block)];
    if (candidate.parent == parent && std::ranges::equal(tokens_of(block), tokens) &&
        (parent != kBeginning || candidate.salt == salt))
      return block;
  }
  return kNone;
}

template <class Visit>
void BlockManager::visit_prefix(const Sequence& sequence, Visit&& visit) const {
  if (caching_ == PrefixCaching::kOff) return;
  uint64_t parent = kBeginning;
  for (int i = 0; i < (sequence.num_tokens() - 1) / block_size_; ++i) {
    const int32_t block = find(parent, logical_tokens(sequence, i), sequence.cache_salt);
    if (block == kNone) return;
    visit(block);
    parent = blocks_[size_t(block)].content;
  }
}

BlockState BlockManager::state(int block) const {
  const Block& b = blocks_[size_t(block)];
  if (b.num_users > 0) return BlockState::kUsed;
  return b.content == kNoContent ? BlockState::kFree : BlockState::kCached;
}

bool BlockManager::can_allocate(const Sequence& sequence) const {
  int hits = 0, hits_in_use = 0;
  visit_prefix(sequence, [&](int32_t block) {
    ++hits;
    hits_in_use += blocks_[size_t(block)].num_users > 0;
  });
  return blocks_for(sequence.num_tokens()) - hits_in_use <= num_free_blocks();
}

void BlockManager::unlink_cached(int32_t block) {
  const Block& b = blocks_[size_t(block)];
  (b.older == kNone ? oldest_ : blocks_[size_t(b.older)].newer) = b.newer;
  (b.newer == kNone ? newest_ : blocks_[size_t(b.newer)].older) = b.older;
}

void BlockManager::use(int32_t block) {
  Block& b = blocks_[size_t(block)];
  if (b.num_users++ > 0) return;
  unlink_cached(block);
  ++num_used_;
}

void BlockManager::forget(int32_t block) {
  Block& b = blocks_[size_t(block)];
  int32_t* link = &bucket(b.parent, tokens_of(block));
  while (*link != block) link = &blocks_[size_t(*link)].next_in_bucket;
  *link = b.next_in_bucket;
  b.content = kNoContent;
}

int32_t BlockManager::take() {
  int32_t block;
  if (!free_blocks_.empty()) {
    block = free_blocks_.back();
    free_blocks_.pop_back();
  } else {
    block = oldest_;
    ASSERT(block != kNone);
    unlink_cached(block);
    forget(block);
  }
  blocks_[size_t(block)].num_users = 1;
  ++num_used_;
  return block;
}

void BlockManager::allocate(Sequence& sequence) {
  ASSERT(sequence.block_table.empty() && can_allocate(sequence));
  const int count = blocks_for(sequence.num_tokens());
  sequence.block_table.reserve(size_t(blocks_for(sequence.max_len)));  // no step allocates
  sequence.content = kBeginning;
  // All hits are in use before the first block is taken, which might give one of them up.
  visit_prefix(sequence, [&](int32_t block) { sequence.block_table.push_back(block); });
  for (const int32_t block : sequence.block_table) {
    use(block);
    sequence.content = blocks_[size_t(block)].content;
  }
  sequence.num_remembered_blocks = int(sequence.block_table.size());
  sequence.num_computed_tokens = sequence.num_remembered_blocks * block_size_;
  while (int(sequence.block_table.size()) < count) sequence.block_table.push_back(take());
}

void BlockManager::share(const Sequence& computed, Sequence& sequence) {
  ASSERT(sequence.block_table.empty() && computed.num_prompt_tokens == sequence.num_tokens());
  sequence.block_table.reserve(size_t(blocks_for(sequence.max_len)));  // no step allocates
  sequence.block_table = computed.block_table;
  for (const int32_t block : sequence.block_table) use(block);
  sequence.num_computed_tokens = sequence.num_prompt_tokens;
  sequence.content = computed.content;
  sequence.num_remembered_blocks = computed.num_remembered_blocks;
}

bool BlockManager::grow(Sequence& sequence) {
  const size_t last = size_t(sequence.num_computed_tokens / block_size_);
  const bool has_block = last < sequence.block_table.size();
  if (has_block && blocks_[size_t(sequence.block_table[last])].num_users == 1) return true;
  if (num_free_blocks() == 0) return false;
  if (has_block) {
    sequence.copied_block = sequence.block_table[last];
    --blocks_[size_t(sequence.copied_block)].num_users;  // not the last one
    sequence.block_table[last] = take();
  } else {
    sequence.block_table.push_back(take());
  }
  return true;
}

bool BlockManager::grow_ahead(Sequence& sequence) {
  const size_t last = size_t((sequence.num_computed_tokens + sequence.num_scheduled_tokens) / block_size_);
  if (last < sequence.block_table.size()) return blocks_[size_t(sequence.block_table[last])].num_users == 1;
  if (num_free_blocks() == 0) return false;
  sequence.block_table.push_back(take());
  return true;
}

void BlockManager::remember_computed(Sequence& sequence) {
  if (caching_ == PrefixCaching::kOff) return;
  for (int& i = sequence.num_remembered_blocks; (i + 1) * block_size_ <= sequence.num_computed_tokens; ++i) {
    const std::span<const TokenId> tokens = logical_tokens(sequence, i);
    int32_t known = find(sequence.content, tokens, sequence.cache_salt);
    if (known == kNone) {
      known = sequence.block_table[size_t(i)];
      Block& block = blocks_[size_t(known)];
      block.content = next_content_++;
      block.parent = sequence.content;
      if (block.parent == kBeginning) block.salt = sequence.cache_salt;
      std::ranges::copy(tokens, tokens_of(known).begin());
      int32_t& first = bucket(block.parent, tokens);
      block.next_in_bucket = first;
      first = known;
    }
    int32_t& own = sequence.block_table[size_t(i)];
    if (own != known) {
      use(known);
      give_up(own);
      own = known;
    }
    sequence.content = blocks_[size_t(known)].content;
  }
}

void BlockManager::give_up(int32_t block) {
  Block& b = blocks_[size_t(block)];
  if (--b.num_users > 0) return;
  --num_used_;
  if (b.content == kNoContent) {
    free_blocks_.push_back(block);
    return;
  }
  b.older = newest_;
  b.newer = kNone;
  (newest_ == kNone ? oldest_ : blocks_[size_t(newest_)].newer) = block;
  newest_ = block;
}

void BlockManager::release(Sequence& sequence) {
  for (auto it = sequence.block_table.rbegin(); it != sequence.block_table.rend(); ++it) give_up(*it);
  sequence.block_table.clear();
  sequence.copied_block = kNone;
}

void BlockManager::check_integrity(const std::vector<const Sequence*>& running) const {
  std::vector<int> users(blocks_.size(), 0), idle(blocks_.size(), 0), indexed(blocks_.size(), 0);
  for (const Sequence* sequence : running) {
    for (const int32_t block : sequence->block_table) ++users[size_t(block)];
    for (int i = 0; i < sequence->num_remembered_blocks && !sequence->block_table.empty(); ++i)
      ASSERT(blocks_[size_t(sequence->block_table[size_t(i)])].content != kNoContent);
  }
  for (const int32_t block : free_blocks_) {
    ++idle[size_t(block)];
    ASSERT(blocks_[size_t(block)].content == kNoContent);
  }
  int32_t before = kNone;
  for (int32_t block = oldest_; block != kNone; before = block, block = blocks_[size_t(block)].newer) {
    ++idle[size_t(block)];
    ASSERT(blocks_[size_t(block)].older == before && blocks_[size_t(block)].content != kNoContent);
  }
  ASSERT(before == newest_);
  for (const int32_t first : buckets_)
    for (int32_t block = first; block != kNone; block = blocks_[size_t(block)].next_in_bucket)
      ++indexed[size_t(block)];
  int used = 0;
  for (size_t i = 0; i < blocks_.size(); ++i) {
    const Block& block = blocks_[i];
    ASSERT(block.num_users == users[i] && idle[i] == (users[i] == 0));
    ASSERT(indexed[i] == (block.content != kNoContent));
    if (indexed[i]) ASSERT(find(block.parent, tokens_of(int32_t(i)), block.salt) == int32_t(i));
    used += users[i] > 0;
  }
  ASSERT(used == num_used_);
}

}  // namespace nanovllm
