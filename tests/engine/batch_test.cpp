#include "engine/batch.h"

#include <gtest/gtest.h>

#include "engine/allocation_count.h"
#include "engine/make_sequence.h"
#include "engine/scheduler.h"

namespace nanovllm {
namespace {

using Ints = std::vector<int32_t>;

// Three sequences in blocks of 4: a decode in its third block, a chunk in the middle of a prompt, and the end
// of a prompt.
TEST(Batch, EveryArrayOfAMixedStep) {
  Sequence decode =
      *test::make_sequence(0, test::ids(9, 100), {.temperature = 0.5f, .top_k = -1, .top_p = 1});
  decode.seed = 0x89ABCDEF01234567;
  decode.num_prompt_tokens = 7;  // two tokens of the answer are there, the second is not computed
  decode.num_computed_tokens = 8;
  decode.num_scheduled_tokens = 1;
  decode.block_table = {5, 2, 7, 3};
  Sequence middle = *test::make_sequence(1, test::ids(20, 200), {.temperature = 1, .top_k = 9});
  middle.num_computed_tokens = 3;
  middle.num_scheduled_tokens = 3;
  middle.block_table = {1, 6, 0, 4, 9};
  Sequence end = *test::make_sequence(2, test::ids(5, 300),
                                      {.temperature = 0, .top_k = 20, .top_p = 0.9f, .min_p = 0.2f});
  end.seed = 42;
  end.num_computed_tokens = 3;
  end.num_scheduled_tokens = 2;
  end.block_table = {8, 10};

  Batch batch;
  build_batch({&decode, &middle, &end}, 4, batch);

  EXPECT_EQ(batch.num_seqs(), 3);
  EXPECT_EQ(batch.num_tokens(), 6);
  EXPECT_EQ(batch.num_sampled(), 2);
  EXPECT_EQ(batch.token_ids, (Ints{108, 203, 204, 205, 303, 304}));
  EXPECT_EQ(batch.positions, (Ints{8, 3, 4, 5, 3, 4}));
  EXPECT_EQ(batch.slot_mapping, (Ints{7 * 4 + 0, 1 * 4 + 3, 6 * 4 + 0, 6 * 4 + 1, 8 * 4 + 3, 10 * 4 + 0}));
  EXPECT_EQ(batch.cu_seqlens_q, (Ints{0, 1, 4, 6}));
  EXPECT_EQ(batch.seq_lens, (Ints{9, 6, 5}));
  EXPECT_EQ(batch.max_blocks, 3);
  EXPECT_EQ(batch.block_table, (Ints{5, 2, 7, 1, 6, 0, 8, 10, -1}));
  EXPECT_EQ(batch.logits_indices, (Ints{0, 5}));
  EXPECT_EQ(batch.temperature, (std::vector<float>{0.5f, 0}));
  EXPECT_EQ(batch.top_k, (Ints{0, 20}));
  EXPECT_EQ(batch.top_p, (std::vector<float>{1, 0.9f}));
  EXPECT_EQ(batch.min_p, (std::vector<float>{0, 0.2f}));
  EXPECT_EQ(batch.seeds, (Ints{0x01234567, int32_t(0x89ABCDEF), 42, 0}));
  EXPECT_EQ(batch.sample_positions, (Ints{9, 5}));
  EXPECT_EQ(batch.sample_indices, (Ints{0, 0}));
}

// Two that share the prompt of the first draw from its row; a decode that goes on in a copied block names it.
TEST(Batch, SharedPromptsAndCopiedBlocks) {
  Sequence first = *test::make_sequence(0, test::ids(5), {.n = 3});
  first.num_scheduled_tokens = 5;
  first.block_table = {4, 2};
  Sequence second = *test::make_sequence(0, test::ids(5), {.n = 3});
  second.shares_prompt = true;
  second.sample_index = 2;
  Sequence decode = *test::make_sequence(1, test::ids(8), {});
  decode.num_prompt_tokens = 7;
  decode.num_computed_tokens = 7;
  decode.num_scheduled_tokens = 1;
  decode.block_table = {6, 9};
  decode.copied_block = 3;

  Batch batch;
  build_batch({&first, &second, &decode}, 4, batch);
  EXPECT_EQ(batch.num_seqs(), 2);
  EXPECT_EQ(batch.num_tokens(), 6);
  EXPECT_EQ(batch.cu_seqlens_q, (Ints{0, 5, 6}));
  EXPECT_EQ(batch.seq_lens, (Ints{5, 8}));
  EXPECT_EQ(batch.block_table, (Ints{4, 2, 6, 9}));
  EXPECT_EQ(batch.logits_indices, (Ints{4, 4, 5}));
  EXPECT_EQ(batch.sample_indices, (Ints{0, 2, 0}));
  EXPECT_EQ(batch.sample_positions, (Ints{5, 5, 8}));
  EXPECT_EQ(batch.block_copies, (Ints{3, 9}));
}

TEST(Batch, HoldsNothingOfTheStepBefore) {
  Sequence a = *test::make_sequence(0, test::ids(5));
  a.num_scheduled_tokens = 5;
  a.block_table = {0, 1, 2};
  Batch batch;
  build_batch({&a}, 2, batch);
  build_batch({}, 2, batch);
  EXPECT_EQ(batch.num_tokens(), 0);
  EXPECT_EQ(batch.num_seqs(), 0);
  EXPECT_EQ(batch.num_sampled(), 0);
  EXPECT_EQ(batch.max_blocks, 0);
  EXPECT_EQ(batch.cu_seqlens_q, (Ints{0}));
  EXPECT_TRUE(batch.positions.empty() && batch.slot_mapping.empty() && batch.block_table.empty());
  EXPECT_TRUE(batch.temperature.empty() && batch.top_k.empty() && batch.top_p.empty() && batch.min_p.empty());
  EXPECT_TRUE(batch.seeds.empty() && batch.sample_positions.empty() && batch.sample_indices.empty());
}

TEST(Batch, TheBlockTableEndsWithTheStep) {
  Sequence a = *test::make_sequence(0, test::ids(8));
  a.num_scheduled_tokens = 4;  // a chunk that fills its block: the next one is not needed yet
  a.block_table = {3, 1, 4};
  Batch batch;
  build_batch({&a}, 4, batch);
  EXPECT_EQ(batch.max_blocks, 1);
  EXPECT_EQ(batch.block_table, (Ints{3}));
  EXPECT_EQ(batch.num_sampled(), 0);
}

TEST(Batch, AStepAllocatesNothingOnceWarm) {
  constexpr int kSeqs = 8, kMaxTokens = 200;
  Scheduler scheduler({.max_num_seqs = kSeqs,
                       .max_num_batched_tokens = 64,
                       .max_model_len = 400,
                       .num_blocks = 400,
                       .block_size = 16},
                      {1});
  for (int i = 0; i < kSeqs; ++i)
    scheduler.add(test::make_sequence(RequestId(i), test::ids(20 + 7 * i, 2), {.max_tokens = kMaxTokens}));
  const std::vector<TokenId> sampled(kSeqs, 5);
  const auto step = [&] {
    const Batch& batch = scheduler.schedule();
    scheduler.update({sampled.data(), size_t(batch.num_sampled())});
    return batch.num_sampled();
  };
  for (int i = 0; i < 60; ++i) step();  // the prompts are done, the arrays have grown

  // 100 decodes more need 6 blocks more a sequence: the block table's array doubles at most twice.
  size_t quiet_steps = 0;
  const size_t before = test::num_allocations();
  for (int i = 0; i < 100; ++i) {
    const size_t at_start = test::num_allocations();
    ASSERT_EQ(step(), kSeqs);
    if (test::num_allocations() == at_start) ++quiet_steps;
  }
  EXPECT_GE(quiet_steps, 98u);
  EXPECT_LE(test::num_allocations() - before, 2u);
}

TEST(Batch, AllocationsAreCounted) {
  const size_t before = test::num_allocations();
  ::operator delete(::operator new(100));
  EXPECT_EQ(test::num_allocations(), before + 1);
}

}  // namespace
}  // namespace nanovllm
