// Runs one step: Batch in, sampled ids out.
//
//   on every rank: upload (one copy down) → copy blocks → forward → compute_logits; on rank 0: sample → download (one copy up)
//
// A step is begun (launch) and its ids are collected; meanwhile the next may be begun.
//
// Owns the ranks, each with its part of the model, its cache and everything a step needs, sized at start for the largest
// step. All ranks read the same Batch, and one rank samples.
#pragma once

#include <filesystem>
#include <memory>
#include <span>
#include <vector>

#include "parallel/thread_ranks.h"
#include "runtime/worker.h"

namespace nanovllm {

class ModelRunner {
 public:
  // Loads the model. throws Error: what models/load.h and checkpoint/checkpoint.h say; kOutOfMemory: not one
  // sequence fits; kUnsupported: the model cannot be split over so many ranks
  ModelRunner(const std::filesystem::path& model_folder, const ModelConfig& model_config,
              const RunnerConfig& config);

  // Begins a step. At most two are begun and not collected, the second of them behind the first: its Batch may name rows of the
  // first one's ids (Batch::token_rows; on one rank). throws Error: a rank failed; with several ranks, so does every later step
  void launch(const Batch& batch);
  // Of the step that was begun first: [num_sampled] ids; negative: that row held no numbers. Valid until the next but one is begun.
  // throws Error, as launch: a device may say only now what happened
  std::span<const TokenId> collect();
  // Before the first step that changes logits (Batch::edits_logits). throws Error(kOutOfMemory)
  void prepare_for_edits();
  // Of the step that was collected last, as long as its ids are valid.
  const StepLogprobs& logprobs() const { return workers_[0]->logprobs(); }
  // Waits for what was begun and forgets it.
  void discard() noexcept;
  // launch and collect; nothing else is running.
  std::span<const TokenId> run(const Batch& batch);
  // Whether launch() returns before the step is over, so that a second one gains time.
  bool runs_behind() const { return config_.ops->queue->begin_graph != nullptr && ranks_.size() == 1; }
  // Like run, but gives the logits [num_sampled, vocab_size] instead of sampling. Valid until the next run.
  Tensor run_logits(const Batch& batch);
  // Of the rows of the step that was begun last, [num_sampled, vocab_size], copied from the device.
  std::vector<float> logits() const;

  const StepTimes& step_times() const {
    return workers_[0]->step_times();
  }                                                        // of the last step that was collected, on rank 0
  const MemoryPlan& memory_plan() const { return plan_; }  // of all ranks together
  // Of a device's own memory, what this has taken by now; others' doings count too. 0: on the host
  size_t memory_used() const;
  const OpTable& ops() const { return *config_.ops; }
  const Decoder& model(int rank = 0) const { return workers_[size_t(rank)]->model(); }
  int num_threads() const;
  int64_t num_prepared() const { return workers_[0]->num_prepared(); }  // OpTable::num_prepared, on rank 0
  const ThreadRanks::Exchanges& exchanges() const { return ranks_.exchanges(); }
  int64_t num_logits_rows() const { return num_logits_rows_; }  // projected to the vocabulary since the start
  size_t arena_peak() const;                                    // of all ranks together
  void set_trace(const TraceHook* trace) { workers_[0]->set_trace(trace); }  // null: off; outlives the runs

 private:
  void plan_memory();

  RunnerConfig config_;
  ThreadRanks ranks_;
  std::vector<std::unique_ptr<Worker>> workers_;  // one a rank
  size_t available_before_ = 0;                   // this was made
  MemoryPlan plan_;
  int64_t num_logits_rows_ = 0;
};

}  // namespace nanovllm
