#include "engine/scheduler.h"

#include <gtest/gtest.h>

#include "engine/make_sequence.h"
#include "support.h"

namespace nanovllm {
namespace {

using Ints = std::vector<int32_t>;
using test::ids;
using test::make_sequence;

constexpr TokenId kEos = 1, kOtherEos = 2, kWord = 7;

SchedulerLimits limits(int max_num_seqs, int budget) {
  return {.max_num_seqs = max_num_seqs,
          .max_num_batched_tokens = budget,
          .max_model_len = 100,
          .num_blocks = 50,
          .block_size = 4,
          .prefix_caching = PrefixCaching::kOff};
}

// Runs a step in which every row gets the same id. Its number of tokens.
int step(Scheduler& scheduler, TokenId id = kWord) {
  const Batch& batch = scheduler.schedule();
  const std::vector<TokenId> sampled(size_t(batch.num_sampled()), id);
  scheduler.update(sampled);
  scheduler.check_integrity();
  return batch.num_tokens();
}

// The only sequence, run until it ends; every row gets kWord.
std::unique_ptr<Sequence> run_to_end(Scheduler& scheduler) {
  while (scheduler.has_unfinished()) step(scheduler);
  std::vector<std::unique_ptr<Sequence>> finished = scheduler.take_finished();
  EXPECT_EQ(finished.size(), 1u);
  return std::move(finished[0]);
}

FinishReason after_one_token(TokenId id, const SamplingParams& params) {
  Scheduler scheduler(limits(1, 10), {kEos, kOtherEos});
  scheduler.add(make_sequence(0, {5, 6}, params));
  step(scheduler, id);
  const auto finished = scheduler.take_finished();
  if (finished.empty()) return FinishReason::kNone;
  EXPECT_EQ(finished[0]->token_ids, (std::vector<TokenId>{5, 6, id}));
  EXPECT_EQ(scheduler.blocks().num_free_blocks(), 50);
  return finished[0]->finish_reason;
}

TEST(Scheduler, AnyOfTheEosIdsStops) {
  EXPECT_EQ(after_one_token(kEos, {}), FinishReason::kStop);
  EXPECT_EQ(after_one_token(kOtherEos, {}), FinishReason::kStop);
  EXPECT_EQ(after_one_token(kWord, {}), FinishReason::kNone);
}

TEST(Scheduler, IgnoreEosIgnoresAllOfThem) {
  EXPECT_EQ(after_one_token(kEos, {.ignore_eos = true}), FinishReason::kNone);
  EXPECT_EQ(after_one_token(kOtherEos, {.ignore_eos = true}), FinishReason::kNone);
}

TEST(Scheduler, StopTokenIdsStopAlsoWhereEosIsIgnored) {
  const SamplingParams params{.ignore_eos = true, .stop_token_ids = {40, kOtherEos}};
  EXPECT_EQ(after_one_token(40, params), FinishReason::kStop);
  EXPECT_EQ(after_one_token(kOtherEos, params), FinishReason::kStop);
  EXPECT_EQ(after_one_token(kEos, params), FinishReason::kNone);
}

TEST(Scheduler, AStopAtTheLastTokenIsAStop) {
  EXPECT_EQ(after_one_token(kEos, {.max_tokens = 1}), FinishReason::kStop);
  EXPECT_EQ(after_one_token(kWord, {.max_tokens = 1}), FinishReason::kLength);
}

TEST(Scheduler, AnEosInThePromptIsAToken) {
  Scheduler scheduler(limits(1, 10), {kEos});
  scheduler.add(make_sequence(0, {kEos, 5, kEos}, {.max_tokens = 2}));
  EXPECT_EQ(run_to_end(scheduler)->num_output_tokens(), 2);
}

// Refuses with exactly this text, and nothing changes.
void expect_refused(const SchedulerLimits& of, int prompt_tokens, const std::string& text) {
  Scheduler scheduler(of, {});
  test::expect_error(ErrorKind::kRequest, text, [&] { scheduler.add(make_sequence(0, ids(prompt_tokens))); });
  EXPECT_FALSE(scheduler.has_unfinished());
  EXPECT_EQ(scheduler.num_waiting(), 0);
  EXPECT_EQ(scheduler.blocks().num_free_blocks(), of.num_blocks);
  EXPECT_EQ(scheduler.schedule().num_tokens(), 0);
  EXPECT_TRUE(scheduler.take_finished().empty());
}

TEST(Scheduler, RefusesAnEmptyPrompt) {
  expect_refused(limits(2, 8), 0, "prompt: has no tokens, want at least 1");
}

TEST(Scheduler, RefusesPromptsTooLongForTheModel) {
  expect_refused(limits(2, 8), 100, "prompt: has 100 tokens, want fewer than max_model_len=100");
  expect_refused(limits(2, 8), 101, "prompt: has 101 tokens, want fewer than max_model_len=100");
}

TEST(Scheduler, RefusesPromptsTooLongForTheCache) {
  SchedulerLimits small = limits(2, 8);
  small.num_blocks = 3;
  expect_refused(small, 12,
                 "prompt: has 12 tokens, want fewer than the 12 that the KV cache holds (3 blocks of 4)");
  expect_refused(small, 50,
                 "prompt: has 50 tokens, want fewer than the 12 that the KV cache holds (3 blocks of 4)");
}

TEST(Scheduler, ARefusedRequestHarmsNoOther) {
  Scheduler scheduler(limits(2, 8), {});
  scheduler.add(make_sequence(0, ids(3), {.max_tokens = 4}));
  step(scheduler);
  EXPECT_THROW(scheduler.add(make_sequence(1, ids(100))), Error);
  EXPECT_THROW(scheduler.add(make_sequence(2, {})), Error);
  const auto sequence = run_to_end(scheduler);
  EXPECT_EQ(sequence->id, 0u);
  EXPECT_EQ(sequence->num_output_tokens(), 4);
}

TEST(Scheduler, TheLastPositionIsMaxModelLenMinus1) {
  for (const int prompt : {1, 50, 98, 99}) {
    Scheduler scheduler(limits(1, 8), {});
    scheduler.add(make_sequence(0, ids(prompt), {.max_tokens = 1 << 30}));
    int last_computed = -1;
    while (scheduler.has_unfinished()) {
      const Batch& batch = scheduler.schedule();
      last_computed = batch.positions.back();
      scheduler.update(std::vector<TokenId>(size_t(batch.num_sampled()), kWord));
    }
    const auto finished = scheduler.take_finished();
    EXPECT_EQ(finished[0]->finish_reason, FinishReason::kLength);
    EXPECT_EQ(finished[0]->num_tokens(), 100)
        << prompt;  // the last token's position is 99; it is never computed
    EXPECT_EQ(last_computed, 98);
  }
}

TEST(Scheduler, TheCacheEndsASequenceToo) {
  SchedulerLimits small = limits(1, 8);
  small.num_blocks = 3;
  Scheduler scheduler(small, {});
  scheduler.add(make_sequence(0, ids(11), {.max_tokens = 50}));
  const auto sequence = run_to_end(scheduler);
  EXPECT_EQ(sequence->finish_reason, FinishReason::kLength);
  EXPECT_EQ(sequence->num_tokens(), 12);
}

TEST(Scheduler, AnErrorRowEndsOnlyItsOwnSequence) {
  Scheduler scheduler(limits(3, 30), {kEos});
  for (RequestId id = 0; id < 3; ++id)
    scheduler.add(make_sequence(id, ids(3 + int(id), 10 * TokenId(id)), {.max_tokens = 3}));
  ASSERT_EQ(scheduler.schedule().num_sampled(), 3);
  scheduler.update(std::vector<TokenId>{20, -1, 22});
  scheduler.check_integrity();
  auto finished = scheduler.take_finished();
  ASSERT_EQ(finished.size(), 1u);
  EXPECT_EQ(finished[0]->id, 1u);
  EXPECT_EQ(finished[0]->finish_reason, FinishReason::kError);
  EXPECT_EQ(finished[0]->num_output_tokens(), 0);
  EXPECT_EQ(scheduler.num_running(), 2);
  ASSERT_EQ(scheduler.progressed().size(), 2u);
  EXPECT_EQ(scheduler.progressed()[0]->token_ids, (std::vector<TokenId>{0, 1, 2, 20}));
  EXPECT_EQ(scheduler.progressed()[1]->token_ids, (std::vector<TokenId>{20, 21, 22, 23, 24, 22}));
  while (scheduler.has_unfinished()) step(scheduler);
  for (const auto& sequence : scheduler.take_finished()) {
    EXPECT_EQ(sequence->finish_reason, FinishReason::kLength);
    EXPECT_EQ(sequence->num_output_tokens(), 3);
  }
}

TEST(Scheduler, DecodesFirstThenChunksWithinTheBudget) {
  Scheduler scheduler(limits(4, 10), {});
  scheduler.add(make_sequence(0, ids(25), {.max_tokens = 9}));
  EXPECT_EQ(scheduler.schedule().positions, ids(10));  // a chunk: nothing to sample
  scheduler.update({});
  scheduler.add(make_sequence(1, ids(4), {.max_tokens = 9}));
  EXPECT_EQ(scheduler.schedule().positions, ids(10, 10));
  scheduler.update({});
  const Batch& third = scheduler.schedule();  // the end of one prompt, the whole of the other
  EXPECT_EQ(third.positions, (Ints{20, 21, 22, 23, 24, 0, 1, 2, 3}));
  EXPECT_EQ(third.logits_indices, (Ints{4, 8}));
  scheduler.update(std::vector<TokenId>{kWord, kWord});
  scheduler.add(make_sequence(2, ids(30), {.max_tokens = 9}));
  scheduler.add(make_sequence(3, ids(30), {.max_tokens = 9}));
  const Batch& fourth = scheduler.schedule();
  EXPECT_EQ(fourth.positions, (Ints{25, 4, 0, 1, 2, 3, 4, 5, 6, 7}));
  EXPECT_EQ(fourth.cu_seqlens_q, (Ints{0, 1, 2, 10}));
  EXPECT_EQ(fourth.logits_indices, (Ints{0, 1}));
}

TEST(Scheduler, ADecodeGoesBeforeTheChunkOfAnOlderPrompt) {
  Scheduler scheduler(limits(2, 4), {});
  scheduler.add(make_sequence(0, ids(11), {.max_tokens = 9}));
  scheduler.add(make_sequence(1, {50}, {.max_tokens = 9}));
  EXPECT_EQ(scheduler.schedule().token_ids, (Ints{50, 0, 1, 2}));
  scheduler.update(std::vector<TokenId>{60});
  EXPECT_EQ(scheduler.schedule().token_ids, (Ints{60, 3, 4, 5}));
}

TEST(Scheduler, FirstComeFirstServedEvenIfALaterOneWouldFit) {
  SchedulerLimits tight = limits(4, 40);
  tight.num_blocks = 5;
  Scheduler scheduler(tight, {});
  scheduler.add(make_sequence(0, ids(11), {.max_tokens = 5}));      // 3 blocks
  scheduler.add(make_sequence(1, ids(11, 50), {.max_tokens = 1}));  // 3 blocks: waits
  scheduler.add(make_sequence(2, ids(1), {.max_tokens = 1}));       // 1 block: waits behind it
  step(scheduler);
  EXPECT_EQ(scheduler.num_running(), 1);
  EXPECT_EQ(scheduler.num_waiting(), 2);
  while (scheduler.has_unfinished()) step(scheduler);
  std::vector<RequestId> order;
  for (const auto& sequence : scheduler.take_finished()) order.push_back(sequence->id);
  EXPECT_EQ(order, (std::vector<RequestId>{0, 1, 2}));
}

// Memory for one and a half: the younger gives way, waits at the head of the queue, and loses nothing.
TEST(Scheduler, TheYoungestIsPreemptedAndComesBack) {
  SchedulerLimits tight = limits(3, 40);
  tight.num_blocks = 6;
  Scheduler scheduler(tight, {});
  scheduler.add(make_sequence(0, ids(8), {.max_tokens = 10}));      // grows to 5 blocks
  scheduler.add(make_sequence(1, ids(8, 50), {.max_tokens = 10}));  // fits beside it at first
  scheduler.add(make_sequence(2, ids(8, 80), {.max_tokens = 1}));
  EXPECT_EQ(step(scheduler), 24);
  EXPECT_EQ(scheduler.num_running(), 2);  // the third has ended
  EXPECT_EQ(step(scheduler), 2);          // both take a third block
  for (int i = 0; i < 3; ++i) EXPECT_EQ(step(scheduler), 2);
  scheduler.add(make_sequence(3, ids(1), {.max_tokens = 1}));
  EXPECT_EQ(step(scheduler), 1);  // the first needs a fourth: the second goes, and nobody comes
  EXPECT_EQ(scheduler.num_running(), 1);
  EXPECT_EQ(scheduler.num_waiting(), 2);
  std::vector<std::unique_ptr<Sequence>> finished;
  while (scheduler.has_unfinished()) {
    step(scheduler);
    for (auto& sequence : scheduler.take_finished()) finished.push_back(std::move(sequence));
  }
  std::vector<RequestId> order;
  for (const auto& sequence : finished) order.push_back(sequence->id);
  EXPECT_EQ(order, (std::vector<RequestId>{2, 0, 3, 1}));
  EXPECT_EQ(finished[1]->num_preemptions, 0);
  EXPECT_EQ(finished[3]->num_preemptions, 1);
  EXPECT_EQ(finished[3]->num_output_tokens(), 10);
}

TEST(Scheduler, CountsWhatTheCacheGaveAtFirst) {
  SchedulerLimits caching = limits(2, 40);
  caching.prefix_caching = PrefixCaching::kOn;
  Scheduler scheduler(caching, {});
  scheduler.add(make_sequence(0, ids(12), {.max_tokens = 3}));
  EXPECT_EQ(run_to_end(scheduler)->num_cached_tokens, 0);
  scheduler.add(make_sequence(1, ids(12), {.max_tokens = 3}));
  EXPECT_EQ(step(scheduler), 4);  // eight of twelve are cached, and the last block is computed
  EXPECT_EQ(run_to_end(scheduler)->num_cached_tokens, 8);
  EXPECT_EQ(scheduler.blocks().num_free_blocks(), 50);
}

TEST(Scheduler, MetricsCountEachThingOnce) {
  SchedulerLimits small = limits(2, 40);
  small.num_blocks = 6;
  small.prefix_caching = PrefixCaching::kOn;
  Scheduler scheduler(small, {kEos});
  scheduler.add(make_sequence(0, ids(8, 10), {.max_tokens = 10}));
  scheduler.add(make_sequence(1, ids(8, 50), {.max_tokens = 10}));  // preempted, and admitted again
  while (scheduler.has_unfinished()) step(scheduler);
  scheduler.add(make_sequence(2, ids(8, 10), {.max_tokens = 2}));
  step(scheduler);
  step(scheduler, kEos);
  scheduler.add(make_sequence(3, ids(8, 10)));
  EXPECT_TRUE(scheduler.abort(3));
  const EngineMetrics& m = scheduler.metrics();
  EXPECT_EQ(m.num_preemptions, 1);
  EXPECT_EQ(m.prompt_tokens, 24);
  EXPECT_EQ(m.generation_tokens, 22);
  EXPECT_EQ(m.prefix_cache_queries, 24);
  EXPECT_EQ(m.prefix_cache_hits, 4);  // the last block is computed anew
  EXPECT_EQ(m.finished[size_t(FinishReason::kLength)], 2);
  EXPECT_EQ(m.finished[size_t(FinishReason::kStop)], 1);
  EXPECT_EQ(m.finished[size_t(FinishReason::kAbort)], 1);
  EXPECT_EQ(m.time_to_first_token.count(), 3);
  EXPECT_EQ(m.inter_token_latency.count(), 19);
  EXPECT_EQ(m.request_queue_time.count(), 3);
  EXPECT_EQ(m.e2e_request_latency.count(), 4);
}

TEST(Histogram, CountsUpToAndOnEachBound) {
  Histogram histogram({1, 2, 5});
  for (const double value : {0.5, 1.0, 1.5, 5.0, 5.1, 100.0}) histogram.observe(value);
  EXPECT_EQ(histogram.counts(), (std::vector<int64_t>{2, 1, 1, 2}));
  EXPECT_EQ(histogram.count(), 6);
  EXPECT_DOUBLE_EQ(histogram.sum(), 113.1);
}

TEST(Scheduler, NoMoreThanMaxNumSeqsRun) {
  Scheduler scheduler(limits(2, 40), {});
  for (RequestId id = 0; id < 5; ++id) scheduler.add(make_sequence(id, ids(2), {.max_tokens = 2}));
  EXPECT_EQ(step(scheduler), 4);
  EXPECT_EQ(scheduler.num_running(), 2);
  EXPECT_EQ(step(scheduler), 2);
  EXPECT_EQ(scheduler.num_running(), 0);
  EXPECT_EQ(step(scheduler), 4);
}

TEST(Scheduler, AbortsWhatWaitsAndWhatRuns) {
  Scheduler scheduler(limits(1, 40), {});
  for (RequestId id = 0; id < 3; ++id) scheduler.add(make_sequence(id, ids(6), {.max_tokens = 5}));
  step(scheduler);
  EXPECT_FALSE(scheduler.abort(9));
  EXPECT_TRUE(scheduler.abort(0));
  EXPECT_TRUE(scheduler.progressed().empty());
  EXPECT_EQ(scheduler.blocks().num_free_blocks(), 50);
  EXPECT_TRUE(scheduler.abort(1));
  EXPECT_FALSE(scheduler.abort(1));
  scheduler.check_integrity();
  const auto finished = scheduler.take_finished();
  ASSERT_EQ(finished.size(), 2u);
  EXPECT_EQ(finished[0]->id, 0u);
  EXPECT_EQ(finished[0]->num_output_tokens(), 1);  // what it had stays
  EXPECT_EQ(finished[1]->num_output_tokens(), 0);
  for (const auto& sequence : finished) {
    EXPECT_EQ(sequence->finish_reason, FinishReason::kAbort);
    EXPECT_TRUE(sequence->block_table.empty());
  }
  EXPECT_EQ(run_to_end(scheduler)->id, 2u);
}

TEST(Scheduler, AbortBetweenTheChunksOfAPrompt) {
  Scheduler scheduler(limits(2, 4), {});
  scheduler.add(make_sequence(0, ids(11)));
  scheduler.add(make_sequence(1, ids(3, 20), {.max_tokens = 1}));
  step(scheduler);
  EXPECT_TRUE(scheduler.abort(0));
  EXPECT_EQ(scheduler.schedule().token_ids, ids(3, 20));
  scheduler.update(std::vector<TokenId>{kWord});
  EXPECT_FALSE(scheduler.has_unfinished());
  EXPECT_EQ(scheduler.blocks().num_free_blocks(), 50);
}

TEST(Scheduler, AStepThatCouldNotRunEndsOnlyItsSequences) {
  Scheduler scheduler(limits(2, 4), {});
  for (RequestId id = 0; id < 3; ++id) scheduler.add(make_sequence(id, ids(4), {.max_tokens = 2}));
  ASSERT_EQ(scheduler.schedule().num_seqs(),
            1);  // the budget is one prompt: the second runs, but not in this step
  EXPECT_FALSE(scheduler.has_finished());
  scheduler.fail_step("the device is gone");
  scheduler.check_integrity();
  EXPECT_TRUE(scheduler.progressed().empty());
  EXPECT_TRUE(scheduler.has_finished());
  const auto finished = scheduler.take_finished();
  EXPECT_FALSE(scheduler.has_finished());
  ASSERT_EQ(finished.size(), 1u);
  EXPECT_EQ(finished[0]->id, 0u);
  EXPECT_EQ(finished[0]->finish_reason, FinishReason::kError);
  while (scheduler.has_unfinished()) step(scheduler);
  for (const auto& sequence : scheduler.take_finished()) EXPECT_EQ(sequence->num_output_tokens(), 2);
  EXPECT_EQ(scheduler.blocks().num_free_blocks(), 50);
}

TEST(Scheduler, AStepAheadThatCouldNotRunEndsItsSequencesAndNoOther) {
  Scheduler scheduler(limits(2, 8), {});
  scheduler.add(make_sequence(0, ids(2), {.max_tokens = 2}));
  scheduler.add(make_sequence(1, ids(2), {.max_tokens = 9}));
  scheduler.add(make_sequence(2, ids(2), {.max_tokens = 2}));  // waits
  step(scheduler);
  ASSERT_EQ(scheduler.schedule().num_seqs(), 2);
  const Batch* ahead = scheduler.schedule_ahead();
  ASSERT_TRUE(ahead);
  EXPECT_EQ(ahead->token_rows, std::vector<int32_t>{1});  // request 0 ends with the step that runs
  scheduler.update(std::vector<TokenId>{kWord, kWord});
  scheduler.fail_step("no memory");
  scheduler.check_integrity();
  for (const auto& sequence : scheduler.take_finished())
    EXPECT_EQ(sequence->finish_reason, sequence->id == 0 ? FinishReason::kLength : FinishReason::kError);
  while (scheduler.has_unfinished()) step(scheduler);
  EXPECT_EQ(scheduler.take_finished().at(0)->finish_reason, FinishReason::kLength);
  EXPECT_EQ(scheduler.blocks().num_free_blocks(), 50);
}

TEST(Scheduler, AFailureWithTwoStepsUnderWayEndsWhoIsInThem) {
  Scheduler scheduler(limits(2, 8), {});
  for (RequestId id = 0; id < 3; ++id) scheduler.add(make_sequence(id, ids(2), {.max_tokens = 5}));
  step(scheduler);
  scheduler.schedule();
  ASSERT_TRUE(scheduler.schedule_ahead());
  scheduler.fail_step("no power");
  scheduler.check_integrity();
  EXPECT_EQ(scheduler.take_finished().size(), 2u);
  while (scheduler.has_unfinished()) step(scheduler);
  EXPECT_EQ(scheduler.take_finished().at(0)->num_output_tokens(), 5);
}

TEST(Scheduler, ADeviceThatIsGoneEndsAllThatRunsAndWaits) {
  Scheduler scheduler(limits(2, 8), {});
  for (RequestId id = 0; id < 4; ++id) scheduler.add(make_sequence(id, ids(4), {.max_tokens = 3}));
  step(scheduler);
  scheduler.schedule();
  scheduler.fail_all("the device is gone");
  scheduler.check_integrity();
  EXPECT_FALSE(scheduler.has_unfinished());
  const auto finished = scheduler.take_finished();
  ASSERT_EQ(finished.size(), 4u);
  for (const auto& sequence : finished) {
    EXPECT_EQ(sequence->finish_reason, FinishReason::kError);
    EXPECT_EQ(sequence->error, "the device is gone");
  }
  EXPECT_EQ(scheduler.blocks().num_free_blocks(), 50);
}

TEST(Scheduler, NothingToDoIsAnEmptyStep) {
  Scheduler scheduler(limits(2, 8), {});
  EXPECT_FALSE(scheduler.has_unfinished());
  EXPECT_EQ(step(scheduler), 0);
  EXPECT_TRUE(scheduler.progressed().empty());
  scheduler.add(make_sequence(0, ids(2), {.max_tokens = 1}));
  EXPECT_EQ(run_to_end(scheduler)->finish_reason, FinishReason::kLength);
  EXPECT_EQ(step(scheduler), 0);
}

TEST(Scheduler, TimesAreInOrder) {
  Scheduler scheduler(limits(1, 8), {});
  scheduler.add(make_sequence(0, ids(2), {.max_tokens = 3}));
  const auto sequence = run_to_end(scheduler);
  EXPECT_LE(sequence->arrival_time, sequence->first_token_time);
  EXPECT_LE(sequence->first_token_time, sequence->finish_time);
  EXPECT_NE(sequence->first_token_time, Clock::time_point());
}

TEST(SchedulerDeathTest, WantsAsManyIdsAsRowsWereSampled) {
  Scheduler scheduler(limits(1, 8), {});
  scheduler.add(make_sequence(0, ids(2)));
  scheduler.schedule();
  EXPECT_DEATH(scheduler.update(std::vector<TokenId>{1, 2}), "bug: row == sampled_ids.size");
}

TEST(SchedulerDeathTest, WantsABudgetForEveryDecode) {
  EXPECT_DEATH(Scheduler(limits(8, 7), {}), "bug: .*max_num_batched_tokens >= limits.max_num_seqs");
}

TEST(SchedulerDeathTest, AbortsOnlyBetweenSteps) {
  Scheduler scheduler(limits(1, 8), {});
  scheduler.add(make_sequence(0, ids(2)));
  scheduler.schedule();
  EXPECT_DEATH(scheduler.abort(0), "bug: !seq");
}

TEST(FinishReason, HasTheNamesOfTheApi) {
  EXPECT_EQ(finish_reason_name(FinishReason::kNone), "");
  EXPECT_EQ(finish_reason_name(FinishReason::kStop), "stop");
  EXPECT_EQ(finish_reason_name(FinishReason::kLength), "length");
  EXPECT_EQ(finish_reason_name(FinishReason::kAbort), "abort");
  EXPECT_EQ(finish_reason_name(FinishReason::kError), "error");
}

}  // namespace
}  // namespace nanovllm
