#include "engine/block_manager.h"

#include "base/error.h"

namespace nanovllm {

BlockManager::BlockManager(int num_blocks, int block_size)
    : num_blocks_(num_blocks), block_size_(block_size) {
  ASSERT(num_blocks >= 1 && block_size >= 1);
  free_blocks_.reserve(size_t(num_blocks));
  for (int block = num_blocks - 1; block >= 0; --block) free_blocks_.push_back(block);
}

void BlockManager::allocate(Sequence& sequence) {
  ASSERT(sequence.block_table.empty() && can_allocate(sequence));
  const int count = blocks_for(sequence.max_len);
  sequence.block_table.reserve(size_t(count));
  for (int i = 0; i < count; ++i) {
    sequence.block_table.push_back(free_blocks_.back());
    free_blocks_.pop_back();
  }
}

void BlockManager::release(Sequence& sequence) {
  free_blocks_.insert(free_blocks_.end(), sequence.block_table.rbegin(), sequence.block_table.rend());
  sequence.block_table.clear();
}

void BlockManager::check_integrity(const std::vector<const Sequence*>& running) const {
  std::vector<int> owners(size_t(num_blocks_), 0);
  for (const int32_t block : free_blocks_) ++owners[size_t(block)];
  for (const Sequence* sequence : running)
    for (const int32_t block : sequence->block_table) ++owners[size_t(block)];
  for (const int count : owners) ASSERT(count == 1);
}

}  // namespace nanovllm
