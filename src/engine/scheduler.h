// Continuous batching: which tokens of which sequences run in a step (Yu et al. 2022, "Orca", OSDI; chunked
// prefill: Agrawal et al. 2023, arXiv:2308.16369).
//
//   schedule() → const Batch&   decodes first, then chunks of prompts, first come first served, within the budget
//   update(ids)                 takes the sampled tokens in, applies the stop rules, frees what has finished
//
// Sequences go in the order of their priority, then of their arrival, running and waiting alike; first and last below
// are meant so. A sequence is admitted when there are blocks for all its tokens, and takes more as it grows. When none
// is left, the last is preempted: its blocks go, it waits at its place in the queue (before all that never ran, if
// priorities are equal), nothing is admitted in that step, and it comes back only when one that ran has ended. So the
// first always progresses, and each is preempted at most once for every one that goes before it: less than max_num_seqs
// times, and once more for each that came later and is more urgent.
//
// The completions of one request are neighbours in that order. Those admitted while the first of them still computes
// the prompt wait for it; then they use its blocks, and each takes its first token from the same row of logits. One
// that comes later computes what the prefix cache does not have.
//
// schedule and update alternate. Between them, while the step runs, schedule_ahead may give the step behind it, where that is
// certain but for the ids that are being sampled. Then the next update() is of that step, and there is no schedule() before it.
// What a sequence that has ended meanwhile still gets from it is thrown away.
#pragma once

#include <deque>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "engine/batch.h"
#include "engine/block_manager.h"
#include "engine/metrics.h"
#include "engine/sequence.h"

namespace nanovllm {

struct SchedulerLimits {
  int max_num_seqs = 0;            // running at once
  int max_num_batched_tokens = 0;  // of one step; at least max_num_seqs, so that every decode fits
  int max_model_len = 0;           // tokens of one sequence, prompt and output
  int num_blocks = 0;
  int block_size = 0;
  PrefixCaching prefix_caching = PrefixCaching::kOn;
};

class Scheduler {
 public:
  // eos_token_ids end a sequence unless it ignores them.
  Scheduler(const SchedulerLimits& limits, std::vector<TokenId> eos_token_ids);

  // It waits, with a sequence for each further completion (params.n). Its prompt and parameters have been checked but
  // for what only the scheduler knows:
  // throws Error(kRequest): the prompt is empty, or too long for the model or the cache (with the numbers)
  void add(std::unique_ptr<Sequence> sequence);

  // The next step; empty (no tokens) if nothing can run. Valid until the next call.
  const Batch& schedule();
  // sampled_ids[i] is the token of the batch's logits row i; negative: the row held no numbers, or none that may be taken
  // (kNoTokenLeft), and the sequence ends in error. logprobs: of the batch's logprob_rows.
  void update(std::span<const TokenId> sampled_ids, const StepLogprobs& logprobs = {});

  // The step behind the one that schedule() or the last schedule_ahead() gave, before its update(): a decode of every sequence
  // that surely goes on (Batch::token_rows). Null: it cannot be told yet, because prompts are unfinished, one waits that could
  // run, no block is left, nobody goes on, or somebody wants logits changed. Valid until the next but one.
  const Batch* schedule_ahead();

  // In place of update(), when the step (or the one behind it) could not be run: its sequences end with kError and this
  // reason, all others go on.
  void fail_step(const std::string& reason);
  // No step can be run any more: every sequence ends with kError and this reason.
  void fail_all(const std::string& reason);

  // Ends all sequences of a request, waiting or running. False: there is none. Not between schedule() and update(); a step of
  // schedule_ahead() may be running.
  bool abort(RequestId id);

  // Ends a sequence that progressed() with kStop: its text has one of the stop strings. When abort() may be called.
  void stop(const Sequence& sequence);
  // Of one that take_finished() gave: the text of its very last token has one, so it counts as stopped.
  void stop_finished(Sequence& sequence);

  // Those that finished since the last call, in order of finishing. They own nothing of the cache any more.
  std::vector<std::unique_ptr<Sequence>> take_finished();
  bool has_finished() const { return !finished_.empty(); }
  // Those that got a token in the last update and still run.
  std::span<Sequence* const> progressed() const { return progressed_; }

  bool has_unfinished() const { return !waiting_.empty() || !running_.empty(); }
  int64_t num_steps_ahead() const { return num_steps_ahead_; }  // that schedule_ahead gave
  int num_waiting() const { return int(waiting_.size()); }
  int num_running() const { return int(running_.size()); }
  const std::deque<std::unique_ptr<Sequence>>& waiting() const { return waiting_; }
  const std::vector<std::unique_ptr<Sequence>>& running() const { return running_; }
  const EngineMetrics& metrics() const { return metrics_; }  // since the beginning
  const BlockManager& blocks() const { return blocks_; }
  void check_integrity() const;  // for tests

 private:
  bool make_room();  // for every decode; true: a sequence was preempted
  void preempt_last();
  void admit();
  void wait(std::unique_ptr<Sequence> sequence);
  // Tokens of running_[index] for this step, and the rows of those that share its prompt, if that is complete.
  void take(size_t index, int& budget);
  void remove_finished();
  void begin(Sequence& sequence);  // it is admitted for the first time
  void append_token(Sequence& sequence, TokenId id, Clock::time_point now);
  void finish(std::unique_ptr<Sequence> sequence, FinishReason reason);
  bool is_eos(const Sequence& sequence, TokenId id) const;
  void check_between_steps() const;

  SchedulerLimits limits_;
  std::vector<TokenId> eos_token_ids_;
  BlockManager blocks_;
  std::deque<std::unique_ptr<Sequence>> waiting_;  // these two: the first one first
  std::vector<std::unique_ptr<Sequence>> running_;
  int64_t num_steps_ahead_ = 0;
  int64_t num_ended_ = 0;  // of those that ran
  uint64_t next_arrival_ = 0;
  // Of the step in hand and of the one behind it, in the batch's order; null: it has ended, its row is lost.
  std::vector<Sequence*> scheduled_, ahead_;
  std::vector<int32_t> ahead_rows_;
  std::vector<Sequence*> progressed_;
  std::vector<std::unique_ptr<Sequence>> finished_;
  Batch batches_[2];  // the step in hand and the one behind it, in turn
  int batch_ = 0;
  EngineMetrics metrics_;
};

}  // namespace nanovllm
