#include "engine/block_manager.h"

#include <gtest/gtest.h>

#include <set>

#include "engine/make_sequence.h"

namespace nanovllm {
namespace {

using Blocks = std::vector<int32_t>;
using test::ids;

Sequence sequence_of(std::vector<TokenId> tokens, const std::string& salt = "") {
  Sequence sequence;
  sequence.token_ids = std::move(tokens);
  sequence.num_prompt_tokens = sequence.num_tokens();
  sequence.max_len = sequence.num_tokens() + 100;
  sequence.cache_salt = salt;
  return sequence;
}

void compute_all(BlockManager& blocks, Sequence& sequence) {
  sequence.num_computed_tokens = sequence.num_tokens();
  blocks.remember_computed(sequence);
}

// Admits, computes and releases. How many tokens were found in the cache.
int pass_through(BlockManager& blocks, const std::vector<TokenId>& tokens, const std::string& salt = "") {
  Sequence sequence = sequence_of(tokens, salt);
  blocks.allocate(sequence);
  const int cached = sequence.num_computed_tokens;
  compute_all(blocks, sequence);
  blocks.check_integrity({&sequence});
  blocks.release(sequence);
  blocks.check_integrity({});
  return cached;
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

TEST(BlockManager, GivesBlocksThatNobodyElseHas) {
  BlockManager blocks(7, 4);
  Sequence a = sequence_of(ids(9)), b = sequence_of(ids(16, 100));
  blocks.allocate(a);
  blocks.allocate(b);
  EXPECT_EQ(a.block_table.size(), 3u);
  EXPECT_EQ(b.block_table.size(), 4u);
  EXPECT_EQ(blocks.num_free_blocks(), 0);
  std::set<int32_t> all(a.block_table.begin(), a.block_table.end());
  all.insert(b.block_table.begin(), b.block_table.end());
  EXPECT_EQ(all.size(), 7u);
  blocks.check_integrity({&a, &b});
  blocks.release(a);
  EXPECT_EQ(blocks.num_free_blocks(), 3);
  blocks.release(a);  // has nothing: changes nothing
  EXPECT_EQ(blocks.num_free_blocks(), 3);
  blocks.check_integrity({&a, &b});
}

TEST(BlockManager, GrowsByABlockWhereATokenNeedsOne) {
  BlockManager blocks(3, 2);
  Sequence a = sequence_of(ids(2));
  blocks.allocate(a);
  for (int computed = 0; computed < 6; ++computed) {
    a.num_computed_tokens = computed;
    EXPECT_TRUE(blocks.grow(a));
    EXPECT_TRUE(blocks.grow(a));  // has it already
    EXPECT_EQ(int(a.block_table.size()), computed / 2 + 1);
  }
  a.num_computed_tokens = 6;
  EXPECT_FALSE(blocks.grow(a));
  blocks.check_integrity({&a});
}

TEST(BlockManager, APrefixIsFoundAsFarAsItsFullBlocksGo) {
  for (const int length : {1, 3, 4, 5, 7, 8, 9, 12}) {
    BlockManager blocks(20, 4);
    EXPECT_EQ(pass_through(blocks, ids(12)), 0);
    EXPECT_EQ(pass_through(blocks, ids(length)), (length - 1) / 4 * 4)
        << length;  // the last token is computed
    std::vector<TokenId> longer = ids(12);
    longer.resize(size_t(length));
    longer.push_back(999);
    longer.push_back(998);
    EXPECT_EQ(pass_through(blocks, longer), length / 4 * 4) << length;
  }
}

TEST(BlockManager, BlocksInUseAreShared) {
  BlockManager blocks(5, 4);
  Sequence a = sequence_of(ids(10)), b = sequence_of(ids(11)), c = sequence_of(ids(11));
  blocks.allocate(a);
  compute_all(blocks, a);
  blocks.allocate(b);
  EXPECT_EQ(b.num_computed_tokens, 8);
  EXPECT_EQ(Blocks(b.block_table.begin(), b.block_table.begin() + 2),
            Blocks(a.block_table.begin(), a.block_table.begin() + 2));
  EXPECT_NE(a.block_table[2], b.block_table[2]);
  blocks.allocate(c);  // three blocks of which two are there
  EXPECT_EQ(blocks.num_free_blocks(), 0);
  blocks.check_integrity({&a, &b, &c});
  blocks.release(a);
  blocks.release(c);
  EXPECT_EQ(blocks.num_free_blocks(), 2);
  blocks.check_integrity({&b});
}

TEST(BlockManager, HitsInUseNeedNoFreeBlock) {
  BlockManager blocks(3, 4);
  Sequence a = sequence_of(ids(8));
  blocks.allocate(a);
  compute_all(blocks, a);
  EXPECT_TRUE(blocks.can_allocate(sequence_of(ids(12))));
  EXPECT_FALSE(blocks.can_allocate(sequence_of(ids(13))));
  EXPECT_FALSE(blocks.can_allocate(sequence_of(ids(5, 50))));
  blocks.release(a);
  // Cached hits are given to the sequence, so they cannot be given up for it.
  EXPECT_TRUE(blocks.can_allocate(sequence_of(ids(12))));
  EXPECT_FALSE(blocks.can_allocate(sequence_of(ids(13))));
}

// The same tokens behind other tokens are another content.
void compute_and_share(BlockManager& blocks, Sequence& first, Sequence& second) {
  blocks.allocate(first);
  compute_all(blocks, first);
  blocks.share(first, second);
}

TEST(BlockManager, WhoGoesOnInASharedBlockGetsACopy) {
  BlockManager blocks(4, 4);
  Sequence a = sequence_of(ids(6)), b = sequence_of(ids(6));
  compute_and_share(blocks, a, b);
  EXPECT_EQ(b.block_table, a.block_table);
  EXPECT_EQ(b.num_computed_tokens, 6);
  EXPECT_EQ(blocks.num_free_blocks(), 2);
  blocks.check_integrity({&a, &b});

  const Blocks before = a.block_table;
  EXPECT_TRUE(blocks.grow(a));
  EXPECT_EQ(a.copied_block, before[1]);
  EXPECT_EQ(a.block_table[0], before[0]);
  EXPECT_NE(a.block_table[1], before[1]);
  EXPECT_TRUE(blocks.grow(b));
  EXPECT_EQ(b.copied_block, -1);
  EXPECT_EQ(b.block_table, before);
  blocks.check_integrity({&a, &b});
  blocks.release(a);
  EXPECT_EQ(a.copied_block, -1);
  blocks.release(b);
  blocks.check_integrity({});
  EXPECT_EQ(blocks.num_free_blocks(), 4);
}

TEST(BlockManager, WithoutAFreeBlockThereIsNoCopy) {
  BlockManager blocks(2, 4);
  Sequence a = sequence_of(ids(6)), b = sequence_of(ids(6));
  compute_and_share(blocks, a, b);
  EXPECT_FALSE(blocks.grow(a));
  EXPECT_EQ(a.block_table, b.block_table);
  EXPECT_EQ(a.copied_block, -1);
  blocks.release(b);
  EXPECT_TRUE(blocks.grow(a));
}

TEST(BlockManager, TheSameBlockUnderAnotherParentIsNoHit) {
  BlockManager blocks(20, 2);
  EXPECT_EQ(pass_through(blocks, {1, 2, 3, 4, 5}), 0);
  EXPECT_EQ(pass_through(blocks, {9, 9, 3, 4, 5}), 0);
  EXPECT_EQ(pass_through(blocks, {3, 4, 5}), 0);
  EXPECT_EQ(pass_through(blocks, {9, 9, 3, 4, 6}), 4);
}

TEST(BlockManager, SaltsSeparate) {
  BlockManager blocks(20, 2);
  EXPECT_EQ(pass_through(blocks, ids(7), "a"), 0);
  EXPECT_EQ(pass_through(blocks, ids(7), "b"), 0);
  EXPECT_EQ(pass_through(blocks, ids(7)), 0);
  EXPECT_EQ(pass_through(blocks, ids(7), "a"), 6);
  EXPECT_EQ(pass_through(blocks, ids(7)), 6);
}

// A hash that always gives the same, and pairs that collide in a polynomial hash: slow, and right.
TEST(BlockManager, ABadHashFindsNothingWrong) {
  BlockManager blocks(40, 2, PrefixCaching::kOn,
                      [](uint64_t, uint64_t, std::span<const TokenId>) { return uint64_t{7}; });
  for (int first = 0; first < 6; ++first) EXPECT_EQ(pass_through(blocks, {first, 31, 5, 6, 7}), 0);
  for (int first = 0; first < 6; ++first) EXPECT_EQ(pass_through(blocks, {first, 31, 5, 6, 8}), 4);
  BlockManager good(40, 2);
  EXPECT_EQ(pass_through(good, {5, 40, 1}), 0);
  EXPECT_EQ(pass_through(good, {6, 40 - 31, 1}), 0);
  EXPECT_EQ(pass_through(good, {4, 40 + 31, 1}), 0);
}

TEST(BlockManager, CachingCanBeOff) {
  BlockManager blocks(8, 2, PrefixCaching::kOff);
  EXPECT_EQ(pass_through(blocks, ids(7)), 0);
  EXPECT_EQ(pass_through(blocks, ids(7)), 0);
  EXPECT_EQ(blocks.num_cached_blocks(), 0);
}

// What was used longest ago goes first, and of one sequence its end.
TEST(BlockManager, GivesUpTheOldestAndOfThatTheEnd) {
  BlockManager blocks(6, 1);
  EXPECT_EQ(pass_through(blocks, ids(3, 10)), 0);
  EXPECT_EQ(pass_through(blocks, ids(3, 20)), 0);
  EXPECT_EQ(blocks.num_cached_blocks(), 6);
  EXPECT_EQ(pass_through(blocks, ids(2, 30)), 0);    // gives up the end of the first: 12, then 11
  EXPECT_EQ(pass_through(blocks, {10, 11, 12}), 1);  // takes the place of 22 and 21
  EXPECT_EQ(pass_through(blocks, {20, 21, 22}), 1);
}

// Blocks that are given up are forgotten: a hundred prompts through four blocks, and the first again.
TEST(BlockManager, WhatWasGivenUpIsNotFound) {
  BlockManager blocks(4, 2);
  for (int round = 0; round < 100; ++round) EXPECT_EQ(pass_through(blocks, ids(7, 10 * round)), 0) << round;
  EXPECT_EQ(pass_through(blocks, ids(7)), 0);
  EXPECT_EQ(pass_through(blocks, ids(7)), 6);
  EXPECT_EQ(blocks.num_free_blocks(), 4);
}

// Two compute the same at once: the second's blocks are not kept, and what follows them is found all the same.
TEST(BlockManager, TheSameComputedTwiceIsOneContent) {
  BlockManager blocks(10, 2);
  Sequence a = sequence_of(ids(5)), b = sequence_of(ids(7));
  blocks.allocate(a);
  blocks.allocate(b);
  compute_all(blocks, a);
  compute_all(blocks, b);
  blocks.check_integrity({&a, &b});
  EXPECT_EQ(b.block_table[0], a.block_table[0]);
  EXPECT_EQ(b.block_table[1], a.block_table[1]);
  EXPECT_EQ(blocks.num_free_blocks(), 10 - 2 - 1 - 2) << "b's own copies were given up";
  blocks.release(a);
  blocks.release(b);
  blocks.check_integrity({});
  EXPECT_EQ(blocks.num_cached_blocks(), 3);
  EXPECT_EQ(pass_through(blocks, ids(8)), 6);
}

TEST(BlockManagerDeathTest, CheckIntegrityTells) {
  BlockManager blocks(4, 1);
  Sequence a = sequence_of(ids(2));
  blocks.allocate(a);
  EXPECT_DEATH(blocks.check_integrity({}), "bug: block.num_users == users");  // lost
  Sequence twice = a;
  EXPECT_DEATH(blocks.check_integrity({&a, &twice}), "bug: block.num_users == users");  // used twice
  blocks.release(twice);
  EXPECT_DEATH(blocks.check_integrity({&a}), "bug: block.num_users == users");  // used and free
}

TEST(BlockManagerDeathTest, TakesNoMoreThanThereIs) {
  BlockManager blocks(2, 4);
  Sequence a = sequence_of(ids(9));
  EXPECT_DEATH(blocks.allocate(a), "can_allocate");
}

}  // namespace
}  // namespace nanovllm
