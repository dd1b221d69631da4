#include "engine/block_manager.h"

#include <gtest/gtest.h>

#include <set>

#include "engine/make_sequence.h"

namespace nanovllm {
namespace {

Sequence sequence_of(int max_len) {
  Sequence sequence;
  sequence.max_len = max_len;
  return sequence;
}

TEST(BlockManager, CountsTheBlocksOfALength) {
  for (const int block_size : {1, 2, 16, 32, 256}) {
    const BlockManager blocks(4, block_size);
    EXPECT_EQ(blocks.blocks_for(0), 0);
    EXPECT_EQ(blocks.blocks_for(1), 1);
    EXPECT_EQ(blocks.blocks_for(block_size), 1);
    EXPECT_EQ(blocks.blocks_for(block_size + 1), 2);
    EXPECT_EQ(blocks.blocks_for(2 * block_size), 2);
    EXPECT_EQ(blocks.blocks_for(2 * block_size + 1), 3);
  }
}

TEST(BlockManager, GivesEachBlockToOneSequence) {
  BlockManager blocks(7, 4);
  Sequence a = sequence_of(9), b = sequence_of(16);
  blocks.allocate(a);
  blocks.allocate(b);
  EXPECT_EQ(a.block_table.size(), 3u);
  EXPECT_EQ(b.block_table.size(), 4u);
  EXPECT_EQ(blocks.num_free_blocks(), 0);
  std::set<int32_t> all(a.block_table.begin(), a.block_table.end());
  all.insert(b.block_table.begin(), b.block_table.end());
  EXPECT_EQ(all, (std::set<int32_t>{0, 1, 2, 3, 4, 5, 6}));
  blocks.check_integrity({&a, &b});
}

TEST(BlockManager, RefusesWhatDoesNotFit) {
  BlockManager blocks(3, 4);
  EXPECT_TRUE(blocks.can_allocate(sequence_of(12)));
  EXPECT_FALSE(blocks.can_allocate(sequence_of(13)));
  Sequence one = sequence_of(1);
  blocks.allocate(one);
  EXPECT_TRUE(blocks.can_allocate(sequence_of(8)));
  EXPECT_FALSE(blocks.can_allocate(sequence_of(9)));
}

TEST(BlockManager, ReleaseGivesEverythingBack) {
  BlockManager blocks(5, 2);
  Sequence a = sequence_of(4), b = sequence_of(6);
  blocks.allocate(a);
  blocks.allocate(b);
  blocks.release(a);
  EXPECT_TRUE(a.block_table.empty());
  EXPECT_EQ(blocks.num_free_blocks(), 2);
  blocks.check_integrity({&a, &b});
  blocks.release(a);  // has nothing: changes nothing
  EXPECT_EQ(blocks.num_free_blocks(), 2);
  blocks.release(b);
  EXPECT_EQ(blocks.num_free_blocks(), 5);
  blocks.check_integrity({});
}

TEST(BlockManager, TheBlocksUsedLastAreTakenFirst) {
  BlockManager blocks(8, 1);
  Sequence a = sequence_of(3), b = sequence_of(3);
  blocks.allocate(a);
  const std::vector<int32_t> first = a.block_table;
  blocks.release(a);
  blocks.allocate(b);
  EXPECT_EQ(b.block_table, first);
}

TEST(BlockManagerDeathTest, CheckIntegrityTells) {
  BlockManager blocks(4, 1);
  Sequence a = sequence_of(2);
  blocks.allocate(a);
  EXPECT_DEATH(blocks.check_integrity({}), "bug: count == 1");  // lost
  Sequence twice = a;
  EXPECT_DEATH(blocks.check_integrity({&a, &twice}), "bug: count == 1");  // used twice
  blocks.release(twice);
  EXPECT_DEATH(blocks.check_integrity({&a}), "bug: count == 1");  // used and free
}

TEST(BlockManagerDeathTest, TakesNoMoreThanThereIs) {
  BlockManager blocks(2, 4);
  Sequence a = sequence_of(9);
  EXPECT_DEATH(blocks.allocate(a), "can_allocate");
}

}  // namespace
}  // namespace nanovllm
