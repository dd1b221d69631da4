// Paged KV-cache bookkeeping: which blocks a sequence owns (Kwon et al. 2023, arXiv:2309.06180, section 4.2).
//
// A block is free or used by exactly one sequence. A sequence takes the blocks of its longest possible length
// when it is admitted, so one that runs never runs out.
#pragma once

#include <cstdint>
#include <vector>

#include "engine/sequence.h"

namespace nanovllm {

class BlockManager {
 public:
  // num_blocks and block_size (tokens per block) are at least 1.
  BlockManager(int num_blocks, int block_size);

  int num_blocks() const { return num_blocks_; }
  int num_free_blocks() const { return int(free_blocks_.size()); }
  int block_size() const { return block_size_; }
  int blocks_for(int num_tokens) const { return (num_tokens + block_size_ - 1) / block_size_; }

  bool can_allocate(const Sequence& sequence) const {
    return blocks_for(sequence.max_len) <= num_free_blocks();
  }
  void allocate(Sequence& sequence);  // all blocks up to max_len; can_allocate() holds
  void release(Sequence& sequence);   // gives all its blocks back

  // Every block is free once or used once. For tests.
  void check_integrity(const std::vector<const Sequence*>& running) const;

 private:
  int num_blocks_;
  int block_size_;
  std::vector<int32_t>
      free_blocks_;  // taken from the back: the block used last is the one most likely in a cache
};

}  // namespace nanovllm
