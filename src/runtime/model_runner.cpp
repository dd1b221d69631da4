#include "runtime/model_runner.h"

#include <algorithm>

#include "base/error.h"
#include "models/load.h"

namespace nanovllm {
namespace {

// A system that promises more memory than it has would end the program in the middle of loading.
void check_memory_for(const Checkpoint& checkpoint, const std::filesystem::path& model_folder) {
  const size_t bytes = checkpoint.data_bytes();
  const size_t available = available_memory();
  if (available > 0 && bytes > available)
    fail(ErrorKind::kOutOfMemory, model_folder.string(), ": has ", bytes >> 20, " MiB of weights, and ",
         available >> 20, " MiB of memory are available");
}

}  // namespace

ModelRunner::ModelRunner(const std::filesystem::path& model_folder, const ModelConfig& model_config,
                         const RunnerConfig& config)
    : config_(config), ranks_(config.tensor_parallel_size) {
  constexpr auto kForever = ThreadRanks::Wait::kForever;  // a large model takes its time
  check_tensor_parallel_size(model_config, ranks_.size());
  workers_.resize(size_t(ranks_.size()));
  ranks_.run(
      [&](int rank) {
        workers_[size_t(rank)] = std::make_unique<Worker>(model_config, config, ranks_.comm(rank));
      },
      kForever);
  {
    const Checkpoint checkpoint = open_checkpoint(model_folder);
    check_memory_for(checkpoint, model_folder);
    check_parameters(checkpoint, model_folder.string(), workers_[0]->model());
    ranks_.run([&](int rank) { workers_[size_t(rank)]->load(checkpoint); }, kForever);
  }
  plan_memory();
  ranks_.run([&](int rank) { workers_[size_t(rank)]->allocate(plan_.num_blocks); }, kForever);
}

void ModelRunner::plan_memory() {
  for (const auto& worker : workers_) {
    const MemoryPlan plan = worker->measure();
    plan_.weight_bytes += plan.weight_bytes;
    plan_.step_weight_bytes += plan.step_weight_bytes;
    plan_.activation_bytes += plan.activation_bytes;
    plan_.kv_block_bytes += plan.kv_block_bytes;
  }
  const BatchLimits limits = config_.batch_limits();
  const int64_t most = INT32_MAX / config_.block_size;  // a slot is an int32
  if (config_.num_blocks > most)
    fail(ErrorKind::kConfig, "num_kvcache_blocks: is ", config_.num_blocks, ", want at most ", most, " of ",
         config_.block_size, " tokens");
  if (config_.num_blocks > 0) {
    plan_.num_blocks = config_.num_blocks;
    return;
  }
  const size_t room = config_.max_kv_bytes ? config_.max_kv_bytes : available_memory() / 4;
  const int64_t useful = std::min(most, limits.max_blocks * limits.max_num_seqs);
  plan_.num_blocks = int(std::min<int64_t>(useful, int64_t(room / plan_.kv_block_bytes)));
  if (plan_.num_blocks < 1)
    fail(ErrorKind::kOutOfMemory, "KV cache: has ", room >> 20, " MiB, want at least ",
         (plan_.kv_block_bytes >> 20) + 1, " MiB for one block of ", config_.block_size, " tokens");
}

std::span<const TokenId> ModelRunner::run(const Batch& batch) {
  num_logits_rows_ += batch.num_sampled();
  std::span<const TokenId> ids;
  ranks_.run([&](int rank) {
    const std::span<const TokenId> sampled = workers_[size_t(rank)]->run(batch);
    if (rank == 0) ids = sampled;
  });
  return ids;
}

Tensor ModelRunner::run_logits(const Batch& batch) {
  num_logits_rows_ += batch.num_sampled();
  ranks_.run([&](int rank) { workers_[size_t(rank)]->run_logits(batch); });
  return workers_[0]->logits();
}

std::vector<float> ModelRunner::logits() const {
  const Tensor& logits = workers_[0]->logits();
  if (!logits.defined()) return {};
  std::vector<float> values(size_t(logits.num_elements()));
  config_.ops->device->download(values.data(), logits.data, values.size() * sizeof(float));
  return values;
}

int ModelRunner::num_threads() const {
  int count = 0;
  for (const auto& worker : workers_) count += worker->num_threads();
  return count;
}

size_t ModelRunner::arena_peak() const {
  size_t bytes = 0;
  for (const auto& worker : workers_) bytes += worker->arena_peak();
  return bytes;
}

}  // namespace nanovllm
