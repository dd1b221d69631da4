// One rank of a model: its share of the weights and of the KV cache, its activations. Made and run on its rank's thread
// (parallel/thread_ranks.h), by all ranks together; runtime/model_runner.h leads them.
#pragma once

#include <filesystem>
#include <map>
#include <memory>
#include <span>

#include "base/thread_pool.h"
#include "checkpoint/checkpoint.h"
#include "engine/logprobs.h"
#include "engine/sequence.h"
#include "models/decoder.h"
#include "ops/ops.h"
#include "runtime/cuda_graphs.h"
#include "runtime/edit_buffers.h"
#include "runtime/input_buffers.h"
#include "runtime/kv_cache.h"
#include "runtime/memory_plan.h"

namespace nanovllm {

struct RunnerConfig {
  const OpTable* ops = nullptr;
  int tensor_parallel_size = 1;
  int num_threads = 1;  // of all ranks together, at least one each
  int max_num_seqs = 1;
  int max_num_batched_tokens = 1;
  int max_model_len = 1;
  int block_size = 16;
  int num_blocks = 0;       // 0: as many as max_kv_bytes allows and all sequences together can use
  size_t max_kv_bytes = 0;  // on the host; 0: a quarter of the memory that is available after loading
  double gpu_memory_utilization = 0.9;  // of a GPU's memory: weights, activations and KV cache together
  int64_t num_valid_tokens = 0;         // ids that may be sampled; 0: all of the vocabulary
  bool dummy_weights = false;           // random ones; nothing but config.json is read
  bool enforce_eager = false;           // no CUDA graphs
  bool logits_for_all_rows = false;     // scoring and tests: room for logits of every token of a step

  BatchLimits batch_limits() const;
};

// Of a step, in seconds.
struct StepTimes {
  double busy = 0;  // the device worked on it
  double idle = 0;  // and had waited since the step before it
};

class Worker {
 public:
  // Declares the parameters. comm outlives this.
  Worker(const ModelConfig& model_config, const RunnerConfig& config, Communicator& comm);

  ~Worker();

  void load(const Checkpoint& checkpoint);
  void load_dummy(uint64_t seed);  // instead: models/load.h
  // After load, on any thread: what this rank will take, num_blocks aside.
  MemoryPlan measure();
  // After measure. On a device that runs behind the host, prompts of 1, 2, 4, … tokens up to the budget are rehearsed, so that no
  // step waits for kernels of the model to be loaded, or algorithms of its products to be chosen and judged.
  void allocate(int num_blocks);
  void prepare_for_edits();  // before the first step that changes logits

  // After allocate: one step. → logits [num_sampled, vocab_size] of rank 0, valid until the next step
  Tensor run_logits(const Batch& batch);
  // Begins a step; rank 0 samples. At most two are begun and not collected.
  void launch(const Batch& batch);
  // Of the step that was begun first: [num_sampled] ids on rank 0, valid until the next but one is begun. The others give nothing.
  std::span<const TokenId> collect();
  // Of the step whose ids were collected last, as long as they are valid; on rank 0.
  const StepLogprobs& logprobs() const { return logprobs_; }
  void discard() noexcept;  // what was begun, whatever became of it
  int num_running() const { return int(num_launched_ - num_collected_); }  // steps
  const StepTimes& step_times() const { return step_times_; }  // of the last step that was collected

  Decoder& model() { return model_; }
  const Decoder& model() const { return model_; }
  const Tensor& logits() const { return outputs_.logits; }
  int num_threads() const { return threads_.num_threads(); }
  int64_t num_prepared() const {  // OpTable::num_prepared
    return config_.ops->num_prepared ? config_.ops->num_prepared(state_.get()) : 0;
  }
  size_t arena_peak() const { return arena_->peak(); }
  void set_trace(const TraceHook* trace) { trace_ = trace; }

 private:
  Context context(Arena& arena);
  template <class Load>
  void with_loading_context(Load&& load);
  using State = std::unique_ptr<void, void (*)(void*)>;
  static State make_state(const OpTable& ops);
  Tensor forward(Context& ctx, const Batch& batch);
  // Logits and, on rank 0, the sampled ids of these hidden states, in the arena.
  void project_and_sample(Context& ctx, const Tensor& hidden);
  // The same for a step that changes logits or gives logprobs: those are of logits that are not changed.
  void project_and_sample(Context& ctx, const Tensor& hidden, const Batch& batch);
  void sample_rows(Context& ctx);
  Tensor logprob_columns(int64_t first, int64_t count, DType dtype) const;
  void begin_logprobs(const Batch& batch);
  void find_top_logprobs();
  void find_token_logprobs();
  // Token ids that the step before this one samples.
  void fetch_token_ids(Context& ctx);
  bool can_replay(const Batch& batch) const;
  void launch_eagerly(const Batch& batch);
  void launch_decodes(const Batch& batch);
  void rehearse();

  RunnerConfig config_;
  Communicator& comm_;
  ThreadPool threads_;
  State state_;  // of the backend
  Decoder model_;
  size_t activation_bytes_ = 0;
  std::unique_ptr<Arena> arena_;
  std::unique_ptr<KvCache> cache_;
  std::unique_ptr<InputBuffers> inputs_;
  std::unique_ptr<EditBuffers> edits_;  // null: nothing has wanted any
  CudaGraphs graphs_;
  struct Result {  // of a step that was begun
    Result(const OpTable& ops, const BatchLimits& limits);
    DeviceBuffer ids, logprobs;  // staging
    std::vector<int32_t> logprob_rows;
    int num_top = 0;
    std::vector<std::vector<float>> all_logits;  // of those that want all; empty: none does
    DeviceMark begun, there;
    Clock::time_point begin_time, end_time;  // of launch
    size_t count = 0;
  };
  Result& result_of(int64_t step) { return *results_[size_t(step % 3)]; }
  void measure_times(int64_t step);
  DeviceBuffer logprob_memory_;
  std::unique_ptr<Arena> logprobs_arena_;  // of its own: recorded steps use the other
  Tensor logprob_words_;                   // StepLogprobs::words of the step in hand, in that memory
  StepLogprobs logprobs_;
  std::unique_ptr<Result> results_[3];  // in turn: of the step before, of one that runs, of one behind it
  StepTimes step_times_;
  int64_t num_launched_ = 0, num_collected_ = 0;
  struct Outputs {  // of a step, in the arena; ids of rank 0
    Tensor logits, ids;
  };
  Outputs outputs_;                  // of the last
  std::map<int, Outputs> recorded_;  // of each recorded size
  const TraceHook* trace_ = nullptr;
};

}  // namespace nanovllm
