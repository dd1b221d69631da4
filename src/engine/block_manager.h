// Paged KV-cache bookkeeping: which blocks a sequence owns (Kwon et al. 2023, arXiv:2309.06180, section 4.2), and
// which blocks of computed tokens may be used again (prefix cache; Zheng et al. 2024, arXiv:2312.07104, section 3).
//
// A block is in one of three states:
//
//   used     sequences point to it: num_users counts them. What several use is not written: who goes on in a
//            shared block that is not full gets a copy of it
//   cached   nobody uses it, but it holds the keys and values of known tokens; the least recently used goes first
//   free     nobody uses it and it holds nothing
//
// What a block holds is a content: block_size tokens behind the content of the block before (or behind the
// beginning, for one salt). Each content has an id that is never given twice, so (parent id, tokens) says all of
// a prefix. The hash only finds candidates: parent, tokens and salt are compared, and a bad hash costs time, never
// a wrong answer. Invariants, all checked by check_integrity():
//
//   - num_users is the number of block tables that hold the block; a cached or free block is in none;
//   - a block is in the index exactly if it has a content, and no two blocks have the same;
//   - a block with a content is full: all its tokens were computed. With caching on, so have all full blocks of a
//     sequence: what is computed twice is kept once.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "engine/sequence.h"

namespace nanovllm {

// Where to look for a content; collisions are harmless. Tests give a bad one.
using ContentHash = uint64_t (*)(uint64_t seed, uint64_t parent, std::span<const TokenId> tokens);
uint64_t content_hash(uint64_t seed, uint64_t parent, std::span<const TokenId> tokens);

enum class PrefixCaching { kOff, kOn };
enum class BlockState { kFree, kCached, kUsed };

class BlockManager {
 public:
  // num_blocks and block_size (tokens per block) are at least 1.
  BlockManager(int num_blocks, int block_size, PrefixCaching caching = PrefixCaching::kOn,
               ContentHash hash = content_hash);

  int num_blocks() const { return int(blocks_.size()); }
  int num_free_blocks() const {
    return num_blocks() - num_used_;
  }  // cached ones too: they are given up at need
  int num_cached_blocks() const { return num_free_blocks() - int(free_blocks_.size()); }
  int block_size() const { return block_size_; }
  BlockState state(int block) const;
  int num_users(int block) const { return blocks_[size_t(block)].num_users; }
  int blocks_for(int num_tokens) const { return (num_tokens + block_size_ - 1) / block_size_; }

  // Whether there are blocks for all tokens that the sequence has.
  bool can_allocate(const Sequence& sequence) const;
  // Gives it blocks for all its tokens, beginning with cached ones; what these hold counts as computed. The last
  // token is always computed anew: its logits are wanted. can_allocate() holds.
  void allocate(Sequence& sequence);
  // Gives `sequence` the blocks of another, which has computed the prompt of both.
  void share(const Sequence& computed, Sequence& sequence);
  // Room for one token more than are computed, in a block of its own: where others use it too, a new one takes its
  // place, to be copied before the step. False: there is no block.
  bool grow(Sequence& sequence);
  // Room for the token behind those that the step in hand computes; where it would have to be copied for that, or there is no
  // block: false.
  bool grow_ahead(Sequence& sequence);
  // Makes the blocks that have become full known to the sequences that come later. Where another block is known to hold
  // the same, the sequence uses that one from now on and gives up its own: equal content means equal bits.
  void remember_computed(Sequence& sequence);
  // Gives all its blocks back; those with contents stay cached, the end of the sequence to go first.
  void release(Sequence& sequence);

  // For tests.
  void check_integrity(const std::vector<const Sequence*>& running) const;

 private:
  static constexpr int32_t kNone = -1;
  static constexpr uint64_t kNoContent = 0, kBeginning = 0;

  struct Block {
    int32_t num_users = 0;
    int32_t older = kNone, newer = kNone;  // among the cached, by last use
    int32_t next_in_bucket = kNone;
    uint64_t content = kNoContent, parent = kBeginning;
    std::string salt;  // of contents at the beginning
  };

  int32_t& bucket(uint64_t parent, std::span<const TokenId> tokens);
  std::span<TokenId> tokens_of(int32_t block);
  std::span<const TokenId> tokens_of(int32_t block) const;
  std::span<const TokenId> logical_tokens(const Sequence& sequence, int logical) const;
  int32_t find(uint64_t parent, std::span<const TokenId> tokens, const std::string& salt) const;
  // Cached or used blocks that hold the sequence's first tokens; at most those before its last token.
  template <class Visit>
  void visit_prefix(const Sequence& sequence, Visit&& visit) const;
  int32_t take();               // a free block, else the cached one used longest ago
  void use(int32_t block);      // one user more
  void give_up(int32_t block);  // one user less
  void unlink_cached(int32_t block);
  void forget(int32_t block);  // its content

  int block_size_;
  PrefixCaching caching_;
  ContentHash hash_;
  uint64_t hash_seed_;
  std::vector<Block> blocks_;
  std::vector<TokenId> tokens_;       // [num_blocks, block_size] of contents
  std::vector<int32_t> buckets_;      // first block of each, a power of two
  std::vector<int32_t> free_blocks_;  // taken from the back: the one used last is most likely in a cache
  int32_t oldest_ = kNone, newest_ = kNone;
  int num_used_ = 0;
  uint64_t next_content_ = 1;
};

}  // namespace nanovllm
