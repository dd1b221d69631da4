#include "runtime/model_runner.h"

#include <algorithm>

#include "base/assert.h"
#include "base/error.h"
#include "models/load.h"
#include "tensor/copy_to_host.h"

namespace nanovllm {
namespace {

// A system that promises more memory than it has would end the program in the middle of loading.
void check_memory_for(const Checkpoint& checkpoint, const std::filesystem::path& model_folder,
                      const Device& device) {
  const size_t bytes = checkpoint.data_bytes();
  const size_t available = device.memory().available;
  if (available > 0 && bytes > available)
    fail(ErrorKind::kOutOfMemory, model_folder.string(), ": has ", bytes >> 20, " MiB of weights, and ",
         available >> 20, " MiB of ", device.name, " memory are available");
}

// What the KV cache may take, weights being loaded and activations still to come: on the host a part of what is there, of a
// device's own memory what the user's share leaves.
size_t room_for_kv(const RunnerConfig& config, const MemoryPlan& plan) {
  const Memory memory = config.ops->device->memory();
  if (memory.total == 0) return config.max_kv_bytes ? config.max_kv_bytes : memory.available / 4;
  const double share = config.gpu_memory_utilization * double(memory.total);
  const double used = double(memory.total - memory.available) + double(plan.besides_kv());
  if (share <= used)
    fail(ErrorKind::kOutOfMemory, "gpu_memory_utilization: is ", config.gpu_memory_utilization, ", ",
         size_t(share) >> 20, " MiB, want more than the ", size_t(used) >> 20,
         " MiB that are in use, weights, activations and ", plan.driver_bytes >> 20,
         " MiB for the driver included");
  return size_t(share - used);
}

}  // namespace

ModelRunner::ModelRunner(const std::filesystem::path& model_folder, const ModelConfig& model_config,
                         const RunnerConfig& config)
    : config_(config),
      ranks_(config.tensor_parallel_size),
      available_before_(config.ops->device->memory().available) {
  constexpr auto kForever = ThreadRanks::Wait::kForever;  // a large model takes its time
  check_tensor_parallel_size(model_config, ranks_.size());
  workers_.resize(size_t(ranks_.size()));
  ranks_.run(
      [&](int rank) {
        workers_[size_t(rank)] = std::make_unique<Worker>(model_config, config, ranks_.comm(rank));
      },
      kForever);
  if (config.dummy_weights) {
    ranks_.run([&](int rank) { workers_[size_t(rank)]->load_dummy(0); }, kForever);
  } else {
    const Checkpoint checkpoint = open_checkpoint(model_folder);
    check_memory_for(checkpoint, model_folder, *config.ops->device);
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
    plan_.input_bytes += plan.input_bytes;
    plan_.driver_bytes += plan.driver_bytes;
  }
  const BatchLimits limits = config_.batch_limits();
  const int64_t most = INT32_MAX / config_.block_size;  // a slot is an int32
  if (config_.num_blocks > most)
    fail(ErrorKind::kConfig, "num_kvcache_blocks: is ", config_.num_blocks, ", want at most ", most, " of ",
         config_.block_size, " tokens");
  if (config_.num_blocks > 0) {
    const Memory memory = config_.ops->device->memory();
    const size_t wanted = size_t(config_.num_blocks) * plan_.kv_block_bytes + plan_.besides_kv();
    if (memory.total > 0 && wanted > memory.available)
      fail(ErrorKind::kOutOfMemory, "num_kvcache_blocks: is ", config_.num_blocks,
           ", which with activations and what the driver takes is ", wanted >> 20, " MiB, want at most the ",
           memory.available >> 20, " MiB that are available");
    plan_.num_blocks = config_.num_blocks;
    return;
  }
  const size_t room = room_for_kv(config_, plan_);
  const int64_t useful = std::min(most, limits.max_blocks * limits.max_num_seqs);
  plan_.num_blocks = int(std::min<int64_t>(useful, int64_t(room / plan_.kv_block_bytes)));
  if (plan_.num_blocks < 1)
    fail(ErrorKind::kOutOfMemory, "KV cache: has ", room >> 20, " MiB, want at least ",
         (plan_.kv_block_bytes >> 20) + 1, " MiB for one block of ", config_.block_size, " tokens");
}

void ModelRunner::launch(const Batch& batch) {
  num_logits_rows_ += batch.num_sampled();
  ranks_.run([&](int rank) { workers_[size_t(rank)]->launch(batch); });
}

std::span<const TokenId> ModelRunner::collect() {
  const std::span<const TokenId> ids = workers_[0]->collect();
  for (size_t rank = 1; rank < workers_.size(); ++rank) workers_[rank]->collect();
  return ids;
}

void ModelRunner::prepare_for_edits() { workers_[0]->prepare_for_edits(); }

void ModelRunner::discard() noexcept {
  for (const auto& worker : workers_) worker->discard();
}

std::span<const TokenId> ModelRunner::run(const Batch& batch) {
  ASSERT(workers_[0]->num_running() == 0);
  launch(batch);
  return collect();
}

Tensor ModelRunner::run_logits(const Batch& batch) {
  num_logits_rows_ += batch.num_sampled();
  ranks_.run([&](int rank) { workers_[size_t(rank)]->run_logits(batch); });
  return workers_[0]->logits();
}

std::vector<float> ModelRunner::logits() const {
  const Tensor& logits = workers_[0]->logits();
  if (!logits.defined()) return {};
  return copy_to_host(*config_.ops->device, logits);
}

int ModelRunner::num_threads() const {
  int count = 0;
  for (const auto& worker : workers_) count += worker->num_threads();
  return count;
}

size_t ModelRunner::memory_used() const {
  const Memory memory = config_.ops->device->memory();
  return memory.total > 0 && available_before_ > memory.available ? available_before_ - memory.available : 0;
}

size_t ModelRunner::arena_peak() const {
  size_t bytes = 0;
  for (const auto& worker : workers_) bytes += worker->arena_peak();
  return bytes;
}

}  // namespace nanovllm
