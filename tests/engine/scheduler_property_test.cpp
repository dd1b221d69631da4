// One property: whatever the memory, the budget and the order of arrivals, the completions are the same.
#include <gtest/gtest.h>

#include <algorithm>
#include <climits>
#include <functional>
#include <map>
#include <random>
#include <set>

#include "engine/allocation_count.h"
#include "engine/fake_model.h"
#include "engine/make_sequence.h"
#include "engine/scheduler.h"
#include "support.h"

namespace nanovllm {
namespace {

using test::make_sequence;

const std::vector<TokenId> kEosIds{1, 2};

struct Request {
  std::vector<TokenId> prompt;
  SamplingParams params;
  int priority = 0;
};

struct Completion {
  std::vector<TokenId> token_ids;  // prompt and output
  FinishReason reason = FinishReason::kNone;
};

bool contains(const std::vector<TokenId>& ids, TokenId id) {
  return std::find(ids.begin(), ids.end(), id) != ids.end();
}

// What a request gives by itself: a plain loop, no blocks, no batch. max_len: of the model or the cache.
Completion alone(const Request& request, int sample_index, int max_len) {
  const SamplingParams& params = request.params;
  Completion result{request.prompt};
  uint64_t last_entry = 0, hidden = 0;
  for (int position = 0, produced = 0;; ++position) {
    last_entry = test::fake_entry(last_entry, result.token_ids[size_t(position)], position);
    hidden = test::fake_attend(hidden, last_entry);
    if (position + 1 < int(result.token_ids.size())) continue;
    const TokenId id = test::fake_sample(hidden, {.temperature = params.temperature,
                                                  .top_p = params.top_p,
                                                  .top_k = std::max(0, params.top_k),
                                                  .seed = params.seed.value(),
                                                  .position = position + 1,
                                                  .sample_index = sample_index});
    if (id < 0) return {result.token_ids, FinishReason::kError};
    result.token_ids.push_back(id);
    const bool eos = contains(kEosIds, id) && !params.ignore_eos;
    if (eos || contains(params.stop_token_ids, id)) return {result.token_ids, FinishReason::kStop};
    if (++produced == params.max_tokens || int(result.token_ids.size()) == max_len)
      return {result.token_ids, FinishReason::kLength};
  }
}

// How often the interesting things happened: a workload that never meets them shows nothing.
struct Tally {
  int refused = 0, aborted = 0, errors = 0, stops = 0, lengths = 0, waits = 0, mixed_steps = 0, chunks = 0,
      preemptions = 0, hits = 0, hits_after_preemption = 0, shared_prompts = 0, block_copies = 0,
      overtakers = 0, steps_ahead = 0, lost_rows = 0;
};

// Runs requests through a Scheduler and looks at every step.
class Workload {
 public:
  Workload(const SchedulerLimits& limits, std::vector<Request> requests, Tally& tally)
      : limits_(limits),
        max_len_(std::min(limits.max_model_len, limits.num_blocks * limits.block_size)),
        requests_(std::move(requests)),
        scheduler_(limits, kEosIds),
        model_(limits.num_blocks, limits.block_size),
        tally_(tally) {
    equal_priorities_ = std::all_of(requests_.begin(), requests_.end(), [&](const Request& request) {
      return request.priority == requests_[0].priority;
    });
  }

  bool all_submitted() const { return next_ == requests_.size(); }
  bool idle() const { return !scheduler_.has_unfinished(); }
  bool done() const { return all_submitted() && !scheduler_.has_unfinished(); }
  size_t num_requests() const { return requests_.size(); }

  void submit() {
    const RequestId id = next_++;
    auto sequence = make_sequence(id, requests_[id].prompt, requests_[id].params);
    sequence->priority = requests_[id].priority;
    if (sequence->num_prompt_tokens < max_len_) {
      scheduler_.add(std::move(sequence));
      for (const auto& added : scheduler_.waiting())
        if (added->id == id) live_.push_back(added.get());
      const size_t arrived = live_.size();
      std::sort(live_.begin(), live_.end(), [](const Sequence* a, const Sequence* b) {
        return std::pair(a->priority, a->arrival) < std::pair(b->priority, b->arrival);
      });
      tally_.overtakers += live_.back()->id != id;
      EXPECT_EQ(arrived, size_t(scheduler_.num_running() + scheduler_.num_waiting()));
      return;
    }
    const int waiting = scheduler_.num_waiting(), free = scheduler_.blocks().num_free_blocks();
    test::expect_error(ErrorKind::kRequest,
                       "has " + std::to_string(requests_[id].prompt.size()) + " tokens, want",
                       [&] { scheduler_.add(std::move(sequence)); });
    EXPECT_EQ(scheduler_.num_waiting(), waiting);
    EXPECT_EQ(scheduler_.blocks().num_free_blocks(), free);
    ++tally_.refused;
  }

  void abort(RequestId id) {
    const bool is_live =
        std::any_of(live_.begin(), live_.end(), [&](const Sequence* s) { return s->id == id; });
    const std::vector<const Sequence*> ran = running();
    ran_ = {ran.begin(), ran.end()};
    EXPECT_EQ(scheduler_.abort(id), is_live);
    if (is_live) aborted_.insert(id);
    scheduler_.check_integrity();
    take_finished();
  }

  void step() {
    const bool unfinished = scheduler_.has_unfinished();
    const std::vector<const Sequence*> ran = running();
    const Batch& batch = scheduler_.schedule();
    EXPECT_EQ(batch.num_tokens() > 0, unfinished);
    check_admission(ran);
    check_shares(batch);
    check_batch(batch);
    const std::vector<const Sequence*> run_now = running();
    ran_ = {run_now.begin(), run_now.end()};
    std::vector<const Sequence*> sampled;
    for (const Sequence* seq : live_)
      if (seq->num_scheduled_tokens > 0 && seq->num_scheduled_tokens == seq->num_uncomputed_tokens()) {
        sampled.push_back(seq);
        for (const Sequence* other : sharers_of(seq)) sampled.push_back(other);
      }
    scheduler_.update(model_.run(batch));
    scheduler_.check_integrity();
    std::erase_if(sampled, [](const Sequence* seq) { return seq->finished(); });
    EXPECT_TRUE(std::ranges::is_permutation(scheduler_.progressed(), sampled));
    take_finished();
  }

  // As LLM does on a GPU: the step behind the one that runs is begun before its ids are known.
  void step_ahead() {
    if (!running_step_) {
      running_step_ = &scheduler_.schedule();
      ids_ = model_.run(*running_step_);
    }
    const Batch* ahead = scheduler_.schedule_ahead();
    std::vector<TokenId> next_ids;
    if (ahead) next_ids = model_.run(*ahead);
    const std::vector<const Sequence*> run_now = running();
    ran_ = {run_now.begin(), run_now.end()};
    const size_t num_alive = live_.size();
    scheduler_.update(ids_);
    scheduler_.check_integrity();
    take_finished();
    tally_.steps_ahead += ahead != nullptr;
    tally_.lost_rows += ahead && num_alive != live_.size();
    running_step_ = ahead;
    ids_ = next_ids;
  }

  void check_end() const {
    EXPECT_TRUE(live_.empty());
    EXPECT_EQ(scheduler_.blocks().num_free_blocks(), limits_.num_blocks);
    const EngineMetrics& metrics = scheduler_.metrics();
    EXPECT_EQ(metrics.prompt_tokens, prompt_tokens_);
    EXPECT_EQ(metrics.generation_tokens, generation_tokens_);
    EXPECT_LE(metrics.prefix_cache_hits, metrics.prefix_cache_queries);
  }

 private:
  static bool is_running(const Sequence* seq) { return !seq->block_table.empty() || seq->shares_prompt; }

  std::vector<const Sequence*> running() const {
    std::vector<const Sequence*> result;
    std::copy_if(live_.begin(), live_.end(), std::back_inserter(result), is_running);
    return result;
  }

  // Those that share this one's prompt.
  std::vector<const Sequence*> sharers_of(const Sequence* seq) const {
    std::vector<const Sequence*> result;
    std::copy_if(live_.begin(), live_.end(), std::back_inserter(result), [&](const Sequence* other) {
      return other->shares_prompt && other->id == seq->id && seq->num_output_tokens() == 0;
    });
    return result;
  }

  // First come, first served, and nobody waits without a reason: the reason may be that one was preempted. `ran`:
  // what ran before this step.
  void check_admission(const std::vector<const Sequence*>& ran) {
    const int preempted = int(std::count_if(ran.begin(), ran.end(), std::not_fn(is_running)));
    tally_.preemptions += preempted;
    EXPECT_TRUE(std::is_partitioned(ran.begin(), ran.end(), is_running)) << "not the last was preempted";
    const auto first_waiting = std::find_if_not(live_.begin(), live_.end(), is_running);
    for (auto it = live_.begin(); it != live_.end(); ++it) {
      const Sequence* seq = *it;
      if (is_running(seq) && std::find(ran.begin(), ran.end(), seq) == ran.end()) {
        EXPECT_EQ(preempted, 0) << "admitted in a step that preempts";
        EXPECT_LT(it, first_waiting) << "a later one was admitted";
        tally_.shared_prompts += seq->shares_prompt;
        tally_.hits += seq->num_computed_tokens > 0;
        tally_.hits_after_preemption += seq->num_computed_tokens > 0 && seq->num_preemptions > 0;
        EXPECT_LT(seq->num_computed_tokens, seq->num_tokens());
        EXPECT_LE(seq->num_cached_tokens, seq->num_prompt_tokens);
      }
    }
    EXPECT_TRUE(ran.empty() || is_running(ran[0])) << "the first was preempted";
    EXPECT_EQ(std::count_if(live_.begin(), live_.end(), is_running), scheduler_.num_running());
    EXPECT_LE(scheduler_.num_running(), limits_.max_num_seqs);
    if (first_waiting == live_.end()) return;
    ++tally_.waits;
    const bool none_has_ended = (*first_waiting)->ended_before_preemption == num_ended_;
    EXPECT_TRUE(preempted > 0 || none_has_ended || scheduler_.num_running() == limits_.max_num_seqs ||
                !scheduler_.blocks().can_allocate(**first_waiting))
        << "waits for nothing";
  }

  // Every decode, then prompts in order as far as the budget goes.
  void check_shares(const Batch& batch) {
    EXPECT_LE(batch.num_tokens(), limits_.max_num_batched_tokens);
    bool budget_ended = false;
    int total = 0;
    for (const Sequence* seq : live_) {
      const int share = seq->num_scheduled_tokens, wanted = seq->num_uncomputed_tokens();
      total += share;
      if (!is_running(seq) || seq->shares_prompt) {
        EXPECT_EQ(share, 0);
      } else if (wanted == 1) {
        EXPECT_EQ(share, 1) << "a decode was left out";
      } else {
        EXPECT_FALSE(budget_ended && share > 0) << "a later prompt was served first";
        if (share < wanted) budget_ended = true;
        if (share > 0 && share < wanted) ++tally_.chunks;
      }
    }
    EXPECT_EQ(total, batch.num_tokens());
    EXPECT_TRUE(!budget_ended || total == limits_.max_num_batched_tokens) << "budget was left over";
  }

  // The batch holds these shares, decodes first, and samples the last row of what has no more to compute.
  void check_batch(const Batch& batch) {
    // Whose a row is: blocks at the beginning may be shared, a token's own slot is not.
    std::map<int32_t, const Sequence*> owner;
    for (const Sequence* seq : live_)
      if (seq->num_scheduled_tokens > 0) {
        const int at = seq->num_computed_tokens;
        owner[seq->block_table.at(size_t(at / limits_.block_size)) * limits_.block_size +
              at % limits_.block_size] = seq;
      }
    EXPECT_EQ(owner.size(), size_t(batch.num_seqs()));
    std::vector<int32_t> want_rows;
    bool chunks_began = false;
    int decodes = 0;
    for (int i = 0; i < batch.num_seqs(); ++i) {
      const Sequence* seq = owner.at(batch.slot_mapping.at(size_t(batch.cu_seqlens_q[size_t(i)])));
      const int end = batch.cu_seqlens_q[size_t(i) + 1];
      EXPECT_EQ(end - batch.cu_seqlens_q[size_t(i)], seq->num_scheduled_tokens);
      EXPECT_EQ(batch.seq_lens[size_t(i)], seq->num_computed_tokens + seq->num_scheduled_tokens);
      if (seq->num_uncomputed_tokens() == 1) {
        EXPECT_FALSE(chunks_began) << "a chunk goes before a decode";
        ++decodes;
      } else {
        chunks_began = true;
      }
      if (batch.seq_lens[size_t(i)] == seq->num_tokens())
        want_rows.insert(want_rows.end(), 1 + sharers_of(seq).size(), end - 1);
    }
    tally_.block_copies += batch.num_block_copies();
    EXPECT_EQ(batch.logits_indices, want_rows);
    if (decodes > 0 && decodes < batch.num_seqs()) ++tally_.mixed_steps;
  }

  void take_finished() {
    for (const auto& seq : scheduler_.take_finished()) {
      num_ended_ += ran_.contains(seq.get());
      EXPECT_EQ(std::erase(live_, seq.get()), 1u);
      EXPECT_TRUE(seq->block_table.empty());
      EXPECT_TRUE(!equal_priorities_ || seq->num_preemptions < limits_.max_num_seqs);
      Completion want = alone(requests_[seq->id], seq->sample_index, max_len_);
      if (seq->finish_reason == FinishReason::kAbort) {
        EXPECT_TRUE(aborted_.contains(seq->id));
        ASSERT_LT(seq->token_ids.size(), want.token_ids.size() + (want.reason == FinishReason::kError));
        want.token_ids.resize(seq->token_ids.size());
        want.reason = FinishReason::kAbort;
      }
      EXPECT_EQ(seq->token_ids, want.token_ids) << "request " << seq->id;
      EXPECT_EQ(seq->finish_reason, want.reason) << "request " << seq->id;
      if (seq->sample_index == 0 && seq->num_output_tokens() > 0) prompt_tokens_ += seq->num_prompt_tokens;
      generation_tokens_ += seq->num_output_tokens();
      tally_.aborted += want.reason == FinishReason::kAbort;
      tally_.errors += want.reason == FinishReason::kError;
      tally_.stops += want.reason == FinishReason::kStop;
      tally_.lengths += want.reason == FinishReason::kLength;
    }
  }

  SchedulerLimits limits_;
  int max_len_;
  std::vector<Request> requests_;
  Scheduler scheduler_;
  test::FakeModel model_;
  Tally& tally_;
  bool equal_priorities_;
  size_t next_ = 0;
  std::vector<const Sequence*> live_;  // by priority, then arrival
  std::set<const Sequence*> ran_;      // what runs
  int64_t num_ended_ = 0;
  int64_t prompt_tokens_ = 0, generation_tokens_ = 0;
  const Batch* running_step_ = nullptr;  // of step_ahead
  std::vector<TokenId> ids_;
  std::set<RequestId> aborted_;
};

std::vector<int> prompt_lengths(int block_size) {
  const int b = block_size;
  std::vector<int> lengths{1, b - 1, b, b + 1, 2 * b - 1, 2 * b, 2 * b + 1};
  std::erase(lengths, 0);
  return lengths;
}

class Dice {
 public:
  explicit Dice(uint32_t seed) : engine_(seed) {}
  int below(int n) { return int(engine_() % uint32_t(n)); }
  bool one_in(int n) { return below(n) == 0; }
  template <class T>
  T of(const std::vector<T>& values) {
    return values[size_t(below(int(values.size())))];
  }

 private:
  std::mt19937 engine_;
};

Request random_request(Dice& dice, const std::vector<std::vector<TokenId>>& texts, int block_size) {
  Request request{.prompt = dice.of(texts)};  // few texts, so prompts repeat and share beginnings
  request.prompt.resize(size_t(dice.of(prompt_lengths(block_size))));
  SamplingParams& p = request.params;
  p.temperature = float(dice.below(3)) / 2;
  p.top_k = dice.below(4) - 1;
  p.top_p = dice.one_in(2) ? 1 : 0.5f;
  p.seed = uint64_t(dice.below(2)) << 40 | uint64_t(dice.below(2));
  p.max_tokens = dice.of<int>({1, 2, block_size, block_size + 1, 20});
  p.ignore_eos = dice.one_in(3);
  while (dice.one_in(3)) p.stop_token_ids.push_back(dice.below(test::kFakeVocab));
  if (dice.one_in(3)) p.n = 2 + dice.below(3);
  return request;
}

// What comes after an earlier request in a conversation: its prompt, its answer and a few tokens more.
void extend(Request& request, const Request& earlier, Dice& dice) {
  request.prompt = alone(earlier, 0, INT_MAX).token_ids;
  for (int i = dice.below(4); i > 0; --i) request.prompt.push_back(dice.below(test::kFakeVocab));
}

enum class Steps { kOneByOne, kAhead };
void random_workload(uint32_t seed, Tally& tally, Steps steps_of = Steps::kOneByOne) {
  Dice dice(seed);
  const int block_size = dice.one_in(8)   ? 256
                         : dice.one_in(2) ? 1 + dice.below(32)
                                          : dice.of<int>({1, 2, 16});
  const int longest = 3 * block_size + 2;  // 2B + 1 tokens and B + 1 new ones
  SchedulerLimits limits{.max_num_seqs = 1 + dice.below(6), .block_size = block_size};
  limits.max_num_batched_tokens =
      limits.max_num_seqs + dice.of<int>({0, 1, 3, block_size, dice.below(longest)});
  limits.max_model_len = dice.one_in(2) ? longest + 20 : 2 + dice.below(longest);
  limits.num_blocks = 1 + dice.below(dice.one_in(2) ? 4 : 16);
  limits.prefix_caching = dice.one_in(4) ? PrefixCaching::kOff : PrefixCaching::kOn;

  std::vector<std::vector<TokenId>> texts(3, std::vector<TokenId>(size_t(2 * block_size + 1)));
  for (auto& text : texts)
    for (TokenId& id : text) id = dice.below(test::kFakeVocab);
  std::vector<Request> requests;
  const bool priorities = dice.one_in(4);
  for (int i = 1 + dice.below(12); i > 0; --i) {
    Request request = random_request(dice, texts, block_size);
    if (!requests.empty() && dice.one_in(4)) extend(request, dice.of(requests), dice);
    if (priorities) request.priority = dice.below(3) - 1;
    requests.push_back(request);
  }

  Workload run(limits, std::move(requests), tally);
  int steps = 0;
  while (!run.done()) {
    while (!run.all_submitted() && dice.one_in(2)) run.submit();
    ASSERT_LT(++steps, 100000) << "no end";
    if (dice.one_in(16)) run.abort(RequestId(dice.below(int(run.num_requests()))));
    steps_of == Steps::kAhead ? run.step_ahead() : run.step();
  }
  run.check_end();
}

TEST(SchedulerProperty, CompletionsAreTheSameWhateverTheLoad) {
  Tally tally;
  for (uint32_t seed = 0; seed < 3000; ++seed) {
    SCOPED_TRACE("workload " + std::to_string(seed));
    random_workload(seed, tally);
    if (HasFailure()) return;
  }
  // Every case was met, and often.
  EXPECT_GT(tally.refused, 900);
  EXPECT_GT(tally.aborted, 400);
  EXPECT_GT(tally.errors, 50);
  EXPECT_GT(tally.stops, 300);
  EXPECT_GT(tally.lengths, 1500);
  EXPECT_GT(tally.waits, 9000);
  EXPECT_GT(tally.mixed_steps, 1500);
  EXPECT_GT(tally.chunks, 7000);
  EXPECT_GT(tally.preemptions, 500);
  EXPECT_GT(tally.hits, 1000);
  EXPECT_GT(tally.hits_after_preemption, 200);
  EXPECT_GT(tally.shared_prompts, 1000);
  EXPECT_GT(tally.block_copies, 500);
  EXPECT_GT(tally.overtakers, 200);
}

// With steps that begin before the ids of the one before them are known: nothing but the number of steps changes.
TEST(SchedulerProperty, StepsAheadChangeNoCompletion) {
  Tally tally;
  for (uint32_t seed = 0; seed < 3000; ++seed) {
    SCOPED_TRACE("workload " + std::to_string(seed));
    random_workload(seed, tally, Steps::kAhead);
    if (HasFailure()) return;
  }
  EXPECT_GT(tally.steps_ahead, 5000);
  EXPECT_GT(tally.lost_rows, 500);
  EXPECT_GT(tally.aborted + tally.stops, 700);
}

// Ten thousand requests through a cache for one and a half of the longest: all end, the memory stays what it was.
TEST(SchedulerProperty, TenThousandRequestsThroughLittleMemory) {
  constexpr int kBlockSize = 4, kLongest = 64, kBatch = 100;
  Dice dice(17);
  Tally tally;
  std::vector<std::vector<TokenId>> texts(5, std::vector<TokenId>(kLongest));
  for (auto& text : texts)
    for (TokenId& id : text) id = dice.below(test::kFakeVocab);
  const SchedulerLimits limits{.max_num_seqs = 8,
                               .max_num_batched_tokens = 24,
                               .max_model_len = kLongest,
                               .num_blocks = kLongest * 3 / 2 / kBlockSize,
                               .block_size = kBlockSize};
  std::vector<Request> requests;
  for (int i = 0; i < 10000; ++i) {
    Request request{.prompt = dice.of(texts)};
    request.prompt.resize(size_t(1 + dice.below(40)));
    request.params = {.seed = uint64_t(i), .max_tokens = 1 + dice.below(40), .ignore_eos = true};
    requests.push_back(request);
  }
  Workload run(limits, std::move(requests), tally);
  size_t live_early = 0;
  for (int begin = 0; begin < 10000; begin += kBatch) {
    for (int i = 0; i < kBatch; ++i) run.submit();
    while (!run.done() && !run.idle()) run.step();
    if (begin == 10 * kBatch) live_early = test::num_live_allocations();
    if (HasFailure()) return;
  }
  run.check_end();
  EXPECT_LE(test::num_live_allocations(), live_early + 64);
  EXPECT_GT(tally.preemptions, 2000);
  EXPECT_GT(tally.hits, 2000);
}

// Prompts and outputs that end just before, at and just after a block's end, all at once: the same text as
// alone (which knows no blocks) for every size of blocks, with all the memory and with almost none.
TEST(SchedulerProperty, EdgesOfBlocks) {
  for (const int block_size : {1, 2, 16, 32, 256}) {
    for (const int num_blocks : {4, 1000}) {
      SCOPED_TRACE(std::to_string(num_blocks) + " blocks of " + std::to_string(block_size));
      std::vector<Request> requests;
      for (const int length : prompt_lengths(block_size))
        for (const int max_tokens : {1, 2, block_size, block_size + 1})
          requests.push_back(
              {test::ids(length, 3), {.seed = 9, .max_tokens = max_tokens, .ignore_eos = true}});
      Tally tally;
      Workload run({.max_num_seqs = 7,
                    .max_num_batched_tokens = block_size + 6,
                    .max_model_len = 10000,
                    .num_blocks = num_blocks,
                    .block_size = block_size},
                   std::move(requests), tally);
      while (!run.all_submitted()) run.submit();
      while (!run.done()) run.step();
      run.check_end();
      EXPECT_EQ(tally.refused, 0);
    }
  }
}

}  // namespace
}  // namespace nanovllm
