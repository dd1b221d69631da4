#include "runtime/model_runner.h"

#include <algorithm>

#include "base/error.h"
#include "models/load.h"

namespace nanovllm {
namespace {

BatchLimits limits_of(const RunnerConfig& config) {
  return {.max_num_tokens = config.max_num_batched_tokens,
          .max_num_seqs = config.max_num_seqs,
          .max_num_sampled = config.logits_for_all_rows ? config.max_num_batched_tokens : config.max_num_seqs,
          .max_blocks = (config.max_model_len + config.block_size - 1) / config.block_size,
          .block_size = config.block_size};
}

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
    : config_(config), threads_(config.num_threads) {
  model_ =
      std::make_unique<Decoder>(model_config, *config.ops->device, config.max_model_len, TensorParallel{});
  {
    const Checkpoint checkpoint = open_checkpoint(model_folder);
    check_memory_for(checkpoint, model_folder);
    Arena none(*config.ops->device, 0);
    Context ctx{.ops = *config.ops, .arena = none, .comm = comm_, .threads = &threads_};
    load_parameters(ctx, checkpoint, model_folder.string(), *model_);
  }
  plan_memory();
  arena_ = std::make_unique<Arena>(*config.ops->device, plan_.activation_bytes);
  cache_ = std::make_unique<KvCache>(*config.ops, model_config, model_config.num_kv_heads, plan_.num_blocks,
                                     config.block_size);
  inputs_ = std::make_unique<InputBuffers>(*config.ops->device, limits_of(config));
  sampled_ids_.resize(size_t(limits_of(config).max_num_sampled));
}

void ModelRunner::plan_memory() {
  const BatchLimits limits = limits_of(config_);
  const ModelConfig& model_config = model_->config();
  plan_.weight_bytes = model_->rope_table_bytes();
  model_->visit_parameters([&](const Parameter& parameter) { plan_.weight_bytes += parameter.bytes(); });
  plan_.step_weight_bytes = plan_.weight_bytes - model_->rope_table_bytes();
  if (!model_config.tie_word_embeddings)
    plan_.step_weight_bytes -= model_->embed_tokens().parameter().bytes();
  plan_.activation_bytes = measure_activations(*config_.ops, *model_, limits, threads_.num_threads());
  plan_.kv_block_bytes =
      KvCache::block_bytes(*config_.ops, model_config, model_config.num_kv_heads, config_.block_size);
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

Context ModelRunner::context() {
  return {.ops = *config_.ops, .arena = *arena_, .comm = comm_, .threads = &threads_, .trace = trace_};
}

Tensor ModelRunner::forward(Context& ctx, const Batch& batch) {
  inputs_->upload(batch);
  ModelInput in = inputs_->model_input();
  in.kv = cache_->layers();
  logits_ = {};
  if (batch.num_block_copies() > 0)
    copy_blocks(ctx, {.layers = in.kv, .block_copies = inputs_->block_copies()});
  num_logits_rows_ += batch.num_sampled();
  return model_->forward(ctx, in);
}

std::span<const TokenId> ModelRunner::run(const Batch& batch) {
  const size_t num_sampled = size_t(batch.num_sampled());
  Context ctx = context();
  const Arena::Scope scope(*arena_);
  const Tensor hidden = forward(ctx, batch);
  if (num_sampled == 0) return {};  // only chunks of prompts
  SampleArgs args = inputs_->sample_args();
  args.logits = logits_ = model_->compute_logits(ctx, hidden);
  args.out = arena_->make(DType::kI32, {int64_t(num_sampled)});
  args.num_valid_tokens = config_.num_valid_tokens > 0
                              ? std::min(config_.num_valid_tokens, args.logits.shape[1])
                              : args.logits.shape[1];
  sample(ctx, args);
  config_.ops->device->download(sampled_ids_.data(), args.out.data, num_sampled * sizeof(TokenId));
  return {sampled_ids_.data(), num_sampled};
}

std::vector<float> ModelRunner::logits() const {
  if (!logits_.defined()) return {};
  std::vector<float> values(size_t(logits_.num_elements()));
  config_.ops->device->download(values.data(), logits_.data, values.size() * sizeof(float));
  return values;
}

Tensor ModelRunner::run_logits(const Batch& batch) {
  Context ctx = context();
  const Arena::Scope scope(*arena_);  // the memory stays as it is until the next run
  return logits_ = model_->compute_logits(ctx, forward(ctx, batch));
}

}  // namespace nanovllm
