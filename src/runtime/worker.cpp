#include "runtime/worker.h"

#include <algorithm>

#include "models/load.h"

namespace nanovllm {

BatchLimits RunnerConfig::batch_limits() const {
  return {.max_num_tokens = max_num_batched_tokens,
          .max_num_seqs = max_num_seqs,
          .max_num_sampled = logits_for_all_rows ? max_num_batched_tokens : max_num_seqs,
          .max_blocks = (max_model_len + block_size - 1) / block_size,
          .block_size = block_size};
}

Worker::Worker(const ModelConfig& model_config, const RunnerConfig& config, Communicator& comm)
    : config_(config),
      comm_(comm),
      threads_(std::max(1, config.num_threads / comm.size())),
      state_(make_state(*config.ops)),
      model_(model_config, *config.ops->device, config.max_model_len, {comm.rank(), comm.size()}) {}

Worker::State Worker::make_state(const OpTable& ops) {
  if (!ops.make_state) return {nullptr, [](void*) {}};
  return {ops.make_state(), ops.release_state};
}

template <class Load>
void Worker::with_loading_context(Load&& load) {
  Arena none(*config_.ops->device, 0);
  Context ctx{.ops = *config_.ops, .arena = none, .comm = comm_, .threads = &threads_, .state = state_.get()};
  load(ctx);
}

void Worker::load(const Checkpoint& checkpoint) {
  with_loading_context([&](Context& ctx) { load_parameters(ctx, checkpoint, model_); });
}

void Worker::load_dummy(uint64_t seed) {
  with_loading_context(
      [&](Context& ctx) { load_dummy_parameters(ctx, seed + uint64_t(comm_.rank()), model_); });
}

MemoryPlan Worker::measure() {
  MemoryPlan plan{.weight_bytes = model_.rope_table_bytes()};
  model_.visit_parameters([&](const Parameter& parameter) { plan.weight_bytes += parameter.bytes(); });
  plan.step_weight_bytes = plan.weight_bytes - model_.rope_table_bytes();
  if (!model_.config().tie_word_embeddings)
    plan.step_weight_bytes -= model_.embed_tokens().parameter().bytes();
  plan.activation_bytes = activation_bytes_ = measure_activations(
      *config_.ops, model_, {comm_.rank(), comm_.size()}, config_.batch_limits(), threads_.num_threads());
  plan.kv_block_bytes =
      KvCache::block_bytes(*config_.ops, model_.config(), model_.num_kv_heads(), config_.block_size);
  return plan;
}

void Worker::allocate(int num_blocks) {
  const BatchLimits limits = config_.batch_limits();
  arena_ = std::make_unique<Arena>(*config_.ops->device, activation_bytes_);
  cache_ = std::make_unique<KvCache>(*config_.ops, model_.config(), model_.num_kv_heads(), num_blocks,
                                     config_.block_size);
  inputs_ = std::make_unique<InputBuffers>(*config_.ops->device, limits);
  host_ids_ = DeviceBuffer(config_.ops->device->staging(), size_t(limits.max_num_sampled) * sizeof(TokenId),
                           "sampled ids");
  graphs_ = std::make_unique<CudaGraphs>(*config_.ops, state_.get(), config_.max_num_seqs,
                                         !config_.enforce_eager && comm_.size() == 1);
}

Context Worker::context() {
  return {.ops = *config_.ops,
          .arena = *arena_,
          .comm = comm_,
          .threads = &threads_,
          .state = state_.get(),
          .trace = trace_};
}

Tensor Worker::forward(Context& ctx, const Batch& batch) {
  inputs_->upload(batch);
  ModelInput in = inputs_->model_input();
  in.kv = cache_->layers();
  outputs_ = {};
  if (batch.num_block_copies() > 0)
    copy_blocks(ctx, {.layers = in.kv, .block_copies = inputs_->block_copies()});
  return model_.forward(ctx, in);
}

Tensor Worker::run_logits(const Batch& batch) {
  Context ctx = context();
  const Arena::Scope scope(*arena_);  // the memory stays as it is until the next step
  return outputs_.logits = model_.compute_logits(ctx, forward(ctx, batch));
}

void Worker::project_and_sample(Context& ctx, const Tensor& hidden) {
  outputs_.logits = model_.compute_logits(ctx, hidden);
  if (comm_.rank() != 0) return;
  SampleArgs args = inputs_->sample_args();
  args.logits = outputs_.logits;
  args.out = outputs_.ids = arena_->make(DType::kI32, {outputs_.logits.shape[0]});
  args.num_valid_tokens = config_.num_valid_tokens > 0
                              ? std::min(config_.num_valid_tokens, args.logits.shape[1])
                              : args.logits.shape[1];
  sample(ctx, args);
}

std::span<const TokenId> Worker::download_ids(size_t count) {
  auto* ids = static_cast<TokenId*>(host_ids_.data());
  config_.ops->device->download(ids, outputs_.ids.data, count * sizeof(TokenId));
  return {ids, count};
}

// Decodes alone, each with a token of its own; a trace wants to see every tensor.
bool Worker::can_replay(const Batch& batch) const {
  return graphs_->enabled() && !trace_ && batch.num_tokens() == batch.num_seqs() &&
         batch.num_sampled() == batch.num_seqs() && batch.num_block_copies() == 0;
}

void Worker::run_decodes(const Batch& batch) {
  const int size = graphs_->padded_size(batch.num_seqs());
  inputs_->upload_decodes(batch, size);
  ModelInput in = inputs_->model_input();
  in.kv = cache_->layers();
  const auto step = [&] {
    Context ctx = context();
    const Arena::Scope scope(*arena_);
    project_and_sample(ctx, model_.forward(ctx, in));
  };
  if (graphs_->replay(size)) {
    outputs_ = recorded_.at(size);
    return;
  }
  step();
  recorded_[size] = outputs_;
  graphs_->record(size, step);
}

std::span<const TokenId> Worker::run(const Batch& batch) {
  if (can_replay(batch)) {
    run_decodes(batch);
    outputs_.logits = outputs_.logits.slice(0, batch.num_sampled());
    return download_ids(size_t(batch.num_sampled()));
  }
  Context ctx = context();
  const Arena::Scope scope(*arena_);
  const Tensor hidden = forward(ctx, batch);
  if (batch.num_sampled() == 0) return {};  // only chunks of prompts
  project_and_sample(ctx, hidden);
  if (comm_.rank() != 0) return {};
  return download_ids(size_t(batch.num_sampled()));
}

}  // namespace nanovllm
