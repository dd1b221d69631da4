// Runs one step on one rank: Batch in, sampled ids out.
//
//   upload (one copy down) → copy blocks → forward → compute_logits → sample → download (one copy up)
//
// Owns the model, its cache and everything a step needs, sized at start for the largest step.
#pragma once

#include <filesystem>
#include <memory>
#include <span>
#include <vector>

#include "base/thread_pool.h"
#include "engine/batch.h"
#include "models/decoder.h"
#include "ops/ops.h"
#include "runtime/input_buffers.h"
#include "runtime/kv_cache.h"
#include "runtime/memory_plan.h"

namespace nanovllm {

struct RunnerConfig {
  const OpTable* ops = nullptr;
  int num_threads = 1;
  int max_num_seqs = 1;
  int max_num_batched_tokens = 1;
  int max_model_len = 1;
  int block_size = 16;
  int num_blocks = 0;                // 0: as many as max_kv_bytes allows and all sequences together can use
  size_t max_kv_bytes = 0;           // 0: a quarter of the memory that is available after loading
  int64_t num_valid_tokens = 0;      // ids that may be sampled; 0: all of the vocabulary
  bool logits_for_all_rows = false;  // scoring and tests: room for logits of every token of a step
};

class ModelRunner {
 public:
  // Loads the model. throws Error: what models/load.h and checkpoint/checkpoint.h say; kOutOfMemory: not one
  // sequence fits
  ModelRunner(const std::filesystem::path& model_folder, const ModelConfig& model_config,
              const RunnerConfig& config);

  // [num_sampled] ids; negative: that row held no numbers. Valid until the next run.
  std::span<const TokenId> run(const Batch& batch);
  // Like run, but gives the logits [num_sampled, vocab_size] instead of sampling. Valid until the next run.
  Tensor run_logits(const Batch& batch);
  // Of the last run's rows, [num_sampled, vocab_size], copied from the device.
  std::vector<float> logits() const;

  const MemoryPlan& memory_plan() const { return plan_; }
  const OpTable& ops() const { return *config_.ops; }
  const Decoder& model() const { return *model_; }
  int num_threads() const { return threads_.num_threads(); }
  int64_t num_logits_rows() const { return num_logits_rows_; }  // projected to the vocabulary since the start
  size_t arena_peak() const { return arena_->peak(); }
  void set_trace(const TraceHook* trace) { trace_ = trace; }  // null: off; outlives the runs

 private:
  Context context();
  void plan_memory();
  Tensor forward(Context& ctx, const Batch& batch);

  RunnerConfig config_;
  ThreadPool threads_;
  SingleRank comm_;
  std::unique_ptr<Decoder> model_;
  MemoryPlan plan_;
  std::unique_ptr<Arena> arena_;
  std::unique_ptr<KvCache> cache_;
  std::unique_ptr<InputBuffers> inputs_;
  std::vector<TokenId> sampled_ids_;
  Tensor logits_;  // of the last run, in the arena
  const TraceHook* trace_ = nullptr;
  int64_t num_logits_rows_ = 0;
};

}  // namespace nanovllm
