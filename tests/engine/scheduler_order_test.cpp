// Several completions of a prompt, and priorities: who shares, who waits, who goes first.
#include <gtest/gtest.h>

#include <algorithm>
#include <set>

#include "engine/make_sequence.h"
#include "engine/scheduler.h"

namespace nanovllm {
namespace {

using Ids = std::vector<RequestId>;
using test::ids;
using test::make_sequence;

constexpr TokenId kWord = 7;

SchedulerLimits limits(int max_num_seqs, int budget, int num_blocks = 50) {
  return {.max_num_seqs = max_num_seqs,
          .max_num_batched_tokens = budget,
          .max_model_len = 100,
          .num_blocks = num_blocks,
          .block_size = 4,
          .prefix_caching = PrefixCaching::kOff};
}

void add(Scheduler& scheduler, RequestId id, int prompt_length, const SamplingParams& params = {},
         int priority = 0) {
  auto sequence = make_sequence(id, ids(prompt_length, TokenId(100 * id)), params);
  sequence->priority = priority;
  scheduler.add(std::move(sequence));
}

void update(Scheduler& scheduler, const Batch& batch) {
  scheduler.update(std::vector<TokenId>(size_t(batch.num_sampled()), kWord));
  scheduler.check_integrity();
}

// Runs a step; the batch stays as it is until the next.
const Batch& step(Scheduler& scheduler) {
  const Batch& batch = scheduler.schedule();
  update(scheduler, batch);
  return batch;
}

TEST(Completions, ThePromptIsComputedOnceAndEachDrawsFromItsLastRow) {
  Scheduler scheduler(limits(8, 100), {});
  add(scheduler, 1, 6, {.n = 3});
  const Batch& batch = step(scheduler);
  EXPECT_EQ(batch.num_tokens(), 6);
  EXPECT_EQ(batch.num_seqs(), 1);
  EXPECT_EQ(batch.logits_indices, (std::vector<int32_t>{5, 5, 5}));
  EXPECT_EQ(batch.sample_indices, (std::vector<int32_t>{0, 1, 2}));
  EXPECT_EQ(batch.sample_positions, (std::vector<int32_t>{6, 6, 6}));
  EXPECT_EQ(scheduler.num_running(), 3);
  EXPECT_EQ(scheduler.blocks().num_free_blocks(), 50 - 2);
}

// Six tokens in blocks of four: the full block stays shared, the half full one is copied for all but one.
TEST(Completions, ABlockThatIsNotFullIsCopiedBeforeItIsWritten) {
  Scheduler scheduler(limits(8, 100), {});
  add(scheduler, 1, 6, {.n = 3});
  const std::vector<int32_t> prompt = step(scheduler).block_table;
  const Batch& batch = step(scheduler);
  EXPECT_EQ(scheduler.blocks().num_free_blocks(), 50 - 4);
  ASSERT_EQ(batch.num_block_copies(), 2);
  std::set<int32_t> last_blocks;
  for (size_t i = 0; i < 3; ++i) {
    EXPECT_EQ(batch.block_table[2 * i], prompt[0]);
    EXPECT_EQ(batch.slot_mapping[i], batch.block_table[2 * i + 1] * 4 + 2);
    last_blocks.insert(batch.block_table[2 * i + 1]);
  }
  EXPECT_EQ(last_blocks.size(), 3u);
  EXPECT_EQ(batch.block_table[5], prompt[1]) << "the last of them keeps it";
  for (size_t i = 0; i < 2; ++i) {
    EXPECT_EQ(batch.block_copies[2 * i], prompt[1]);
    EXPECT_EQ(batch.block_copies[2 * i + 1], batch.block_table[2 * i + 1]);
  }
  EXPECT_EQ(step(scheduler).num_block_copies(), 0);
}

TEST(Completions, APromptThatFillsItsBlocksNeedsNoCopy) {
  Scheduler scheduler(limits(8, 100), {});
  add(scheduler, 1, 8, {.n = 2});
  step(scheduler);
  EXPECT_EQ(step(scheduler).num_block_copies(), 0);
  EXPECT_EQ(scheduler.blocks().num_free_blocks(), 50 - 4);
}

TEST(Completions, SharersWaitForAPromptInChunks) {
  Scheduler scheduler(limits(8, 8), {});
  add(scheduler, 1, 20, {.n = 4});
  for (const int sampled : {0, 0, 4, 4}) EXPECT_EQ(step(scheduler).num_sampled(), sampled);
}

// Two of three run; the third comes when one has gone, and computes the prompt by itself.
TEST(Completions, OneThatComesLaterComputesItself) {
  Scheduler scheduler(limits(2, 100), {});
  add(scheduler, 1, 6, {.n = 3, .max_tokens = 2});
  EXPECT_EQ(step(scheduler).num_sampled(), 2);
  step(scheduler);
  EXPECT_EQ(scheduler.take_finished().size(), 2u);
  const Batch& batch = step(scheduler);
  EXPECT_EQ(batch.num_tokens(), 6);
  EXPECT_EQ(batch.sample_indices, std::vector<int32_t>{2});
}

TEST(Completions, OneThatStopsEarlyLeavesTheOthers) {
  Scheduler scheduler(limits(8, 100), {});
  add(scheduler, 1, 6, {.n = 3, .max_tokens = 4, .stop_token_ids = {9}});
  scheduler.schedule();
  scheduler.update(std::vector<TokenId>{kWord, 9, kWord});
  scheduler.check_integrity();
  const auto stopped = scheduler.take_finished();
  ASSERT_EQ(stopped.size(), 1u);
  EXPECT_EQ(stopped[0]->sample_index, 1);
  EXPECT_EQ(stopped[0]->finish_reason, FinishReason::kStop);
  EXPECT_EQ(step(scheduler).num_block_copies(), 1);
  while (scheduler.has_unfinished()) step(scheduler);
  EXPECT_EQ(scheduler.take_finished().size(), 2u);
  EXPECT_EQ(scheduler.blocks().num_free_blocks(), 50);
}

TEST(Completions, AbortEndsAllOfThem) {
  for (const int steps : {0, 1, 3, 5}) {  // waiting; in the prompt, two waiting; each with tokens of its own
    Scheduler scheduler(limits(2, 8), {});
    add(scheduler, 1, 20, {.n = 4});
    add(scheduler, 2, 3);
    for (int i = 0; i < steps; ++i) step(scheduler);
    EXPECT_TRUE(scheduler.abort(1));
    scheduler.check_integrity();
    const auto aborted = scheduler.take_finished();
    ASSERT_EQ(aborted.size(), 4u) << steps;
    for (size_t i = 0; i < 4; ++i) {
      EXPECT_EQ(aborted[i]->sample_index, int(i));
      EXPECT_EQ(aborted[i]->finish_reason, FinishReason::kAbort);
    }
    EXPECT_TRUE(scheduler.progressed().empty());
    EXPECT_FALSE(scheduler.abort(1));
    EXPECT_EQ(scheduler.blocks().num_free_blocks(), 50);
    while (scheduler.has_unfinished()) step(scheduler);
    EXPECT_EQ(scheduler.take_finished().size(), 1u);
  }
}

// A failed chunk of a prompt ends those too that wait for it; another request goes on.
TEST(Completions, AFailedStepEndsThoseThatShareThePrompt) {
  Scheduler scheduler(limits(4, 8), {});
  add(scheduler, 1, 20, {.n = 2});
  add(scheduler, 2, 20, {.n = 2});
  scheduler.schedule();  // eight tokens of request 1
  scheduler.fail_step("no power");
  scheduler.check_integrity();
  const auto failed = scheduler.take_finished();
  ASSERT_EQ(failed.size(), 2u);
  for (const auto& sequence : failed) {
    EXPECT_EQ(sequence->id, 1u);
    EXPECT_EQ(sequence->error, "no power");
  }
  while (scheduler.has_unfinished()) step(scheduler);
  EXPECT_EQ(scheduler.take_finished().size(), 2u);
}

TEST(Completions, MetricsCountAPromptOnce) {
  SchedulerLimits cached = limits(8, 100);
  cached.prefix_caching = PrefixCaching::kOn;
  Scheduler scheduler(cached, {});
  for (int i = 0; i < 2; ++i) {
    add(scheduler, 1, 9, {.n = 3, .max_tokens = 5});
    while (scheduler.has_unfinished()) step(scheduler);
  }
  const EngineMetrics& metrics = scheduler.metrics();
  EXPECT_EQ(metrics.prompt_tokens, 2 * 9);
  EXPECT_EQ(metrics.generation_tokens, 2 * 3 * 5);
  EXPECT_EQ(metrics.prefix_cache_queries, 2 * 9);
  EXPECT_EQ(metrics.prefix_cache_hits, 8);
  EXPECT_EQ(metrics.request_queue_time.count(), 2);
  EXPECT_EQ(metrics.time_to_first_token.count(), 2 * 3);
  const auto finished = scheduler.take_finished();
  ASSERT_EQ(finished.size(), 6u);
  for (size_t i = 0; i < 6; ++i) EXPECT_EQ(finished[i]->num_cached_tokens, i < 3 ? 0 : 8);
}

// Five blocks: a prompt of 6 has two, and a copy for each completion but one. What does not fit waits and comes back.
TEST(Completions, WhoCannotHaveACopyIsPreempted) {
  Scheduler scheduler(limits(8, 100, 5), {});
  add(scheduler, 1, 6, {.n = 6, .max_tokens = 3});
  EXPECT_EQ(step(scheduler).num_sampled(), 6);
  const Batch& batch = step(scheduler);
  EXPECT_EQ(batch.num_seqs(), 4);
  EXPECT_EQ(batch.num_block_copies(), 3);
  EXPECT_EQ(scheduler.num_waiting(), 2);
  EXPECT_EQ(scheduler.blocks().num_free_blocks(), 0);
  while (scheduler.has_unfinished()) step(scheduler);
  const auto finished = scheduler.take_finished();
  ASSERT_EQ(finished.size(), 6u);
  for (const auto& sequence : finished) EXPECT_EQ(sequence->token_ids.size(), 9u);
}

TEST(Priority, TheSmallestIsAdmittedFirstAndEqualOnesByArrival) {
  Scheduler scheduler(limits(1, 100), {});
  const SamplingParams one{.max_tokens = 1};
  add(scheduler, 1, 3, one, 5);
  add(scheduler, 2, 3, one, 0);
  add(scheduler, 3, 3, one, -1);
  add(scheduler, 4, 3, one, 0);
  while (scheduler.has_unfinished()) step(scheduler);
  Ids order;
  for (const auto& sequence : scheduler.take_finished()) order.push_back(sequence->id);
  EXPECT_EQ(order, (Ids{3, 2, 4, 1}));
}

TEST(Priority, ALaterButMoreUrgentPromptIsComputedFirst) {
  Scheduler scheduler(limits(4, 8), {});
  add(scheduler, 1, 20);
  EXPECT_EQ(step(scheduler).token_ids[0], 100);
  add(scheduler, 2, 10, {}, -1);
  EXPECT_EQ(step(scheduler).token_ids, ids(8, 200));
}

// Memory for one and a half: the one that gives way is the least urgent, though it came first.
TEST(Priority, TheLeastUrgentIsPreempted) {
  Scheduler scheduler(limits(4, 100, 6), {});
  add(scheduler, 1, 8, {.max_tokens = 12}, 1);
  step(scheduler);
  add(scheduler, 2, 8, {.max_tokens = 12}, 0);
  std::vector<std::unique_ptr<Sequence>> finished;
  while (scheduler.has_unfinished()) {
    step(scheduler);
    for (auto& sequence : scheduler.take_finished()) finished.push_back(std::move(sequence));
  }
  ASSERT_EQ(finished.size(), 2u);
  EXPECT_EQ(finished[0]->id, 2u);
  EXPECT_EQ(finished[0]->num_preemptions, 0);
  EXPECT_EQ(finished[1]->num_preemptions, 1);
  EXPECT_EQ(finished[1]->token_ids.size(), 20u);
}

// One of the best priority that came while a preempted one waits goes before it; one of the same does not.
TEST(Priority, ThePreemptedWaitsAtItsPlace) {
  Scheduler scheduler(limits(4, 100, 4), {});
  add(scheduler, 1, 7, {.max_tokens = 9});
  add(scheduler, 2, 7, {.max_tokens = 9});
  step(scheduler);
  step(scheduler);
  step(scheduler);  // both want a third block
  EXPECT_EQ(scheduler.metrics().num_preemptions, 1);
  add(scheduler, 3, 7, {.max_tokens = 1}, -1);
  add(scheduler, 4, 7, {.max_tokens = 1});
  ASSERT_EQ(scheduler.num_waiting(), 3);
  Ids waiting;
  for (const auto& sequence : scheduler.waiting()) waiting.push_back(sequence->id);
  EXPECT_EQ(waiting, (Ids{3, 2, 4}));
}

// Two equal prompts are computed at once and then kept once, so there is room again although nobody has ended: the
// preempted one waits all the same, or it could be preempted again and again.
TEST(Preemption, TheNextTurnIsWhenOneThatRanHasEnded) {
  SchedulerLimits tight = limits(4, 8, 20);
  tight.block_size = 1;
  tight.prefix_caching = PrefixCaching::kOn;
  Scheduler scheduler(tight, {});
  add(scheduler, 1, 1, {.max_tokens = 6});
  step(scheduler);
  for (const RequestId id : {2, 3}) scheduler.add(make_sequence(id, ids(8, 50), {.max_tokens = 30}));
  add(scheduler, 4, 2, {.max_tokens = 3});
  step(scheduler);  // all run, and every block is taken
  EXPECT_EQ(scheduler.num_running(), 4);
  EXPECT_EQ(scheduler.blocks().num_free_blocks(), 0);
  step(scheduler);
  ASSERT_EQ(scheduler.num_waiting(), 1);
  EXPECT_EQ(scheduler.waiting()[0]->num_preemptions, 1);
  step(scheduler);
  ASSERT_EQ(scheduler.num_waiting(), 1);
  EXPECT_TRUE(scheduler.blocks().can_allocate(*scheduler.waiting()[0]));
  while (scheduler.take_finished().empty()) {
    EXPECT_EQ(scheduler.num_waiting(), 1);
    step(scheduler);
  }
  step(scheduler);
  EXPECT_EQ(scheduler.num_waiting(), 0);
}

}  // namespace
}  // namespace nanovllm
