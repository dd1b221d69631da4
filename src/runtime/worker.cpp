#include "runtime/worker.h"

#include <algorithm>

#include "base/assert.h"
#include "models/load.h"
#include "tensor/copy_to_host.h"

namespace nanovllm {
namespace {

static_assert(kMaxLogprobs == kMostTopLogprobs);

size_t logprob_words_bytes(const BatchLimits& limits) {
  return Arena::bytes_of(DType::kI32, {limits.max_num_sampled, StepLogprobs::width(kMostTopLogprobs)});
}

size_t logprobs_workspace_bytes(const OpTable& ops, const BatchLimits& limits, int64_t vocab_size) {
  return ops.workspace_bytes({.num_seqs = limits.max_num_sampled, .vocab_size = vocab_size});
}

}  // namespace

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
      model_(model_config, *config.ops->device, config.max_model_len, {comm.rank(), comm.size()}),
      graphs_(*config.ops->queue, state_.get(), config.max_num_seqs,
              !config.enforce_eager && comm.size() == 1) {}

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
  const BatchLimits limits = config_.batch_limits();
  const int64_t vocab_size = model_.config().vocab_size;
  plan.activation_bytes = activation_bytes_ =
      measure_activations(*config_.ops, model_, {comm_.rank(), comm_.size()}, limits, threads_.num_threads());
  plan.input_bytes = InputBuffers::bytes(limits) + EditBuffers::bytes(limits, vocab_size) +
                     logprob_words_bytes(limits) + logprobs_workspace_bytes(*config_.ops, limits, vocab_size);
  if (config_.ops->device->memory().total > 0)
    plan.driver_bytes = estimate_driver_bytes(model_.config(), graphs_.num_sizes());
  plan.kv_block_bytes =
      KvCache::block_bytes(*config_.ops, model_.config(), model_.num_kv_heads(), config_.block_size);
  return plan;
}

void Worker::allocate(int num_blocks) {
  const BatchLimits limits = config_.batch_limits();
  ASSERT(limits.max_num_seqs <= limits.max_num_tokens && limits.max_num_seqs <= limits.max_num_sampled);
  arena_ = std::make_unique<Arena>(*config_.ops->device, activation_bytes_);
  cache_ = std::make_unique<KvCache>(*config_.ops, model_.config(), model_.num_kv_heads(), num_blocks,
                                     config_.block_size);
  inputs_ = std::make_unique<InputBuffers>(*config_.ops, state_.get(), limits);
  for (auto& result : results_) result = std::make_unique<Result>(*config_.ops, limits);
  logprob_memory_ = DeviceBuffer(*config_.ops->device, logprob_words_bytes(limits), "logprobs");
  logprobs_arena_ = std::make_unique<Arena>(
      *config_.ops->device, logprobs_workspace_bytes(*config_.ops, limits, model_.config().vocab_size));
  if (config_.ops->queue->begin_graph) rehearse();
}

namespace {

// Prompts of num_tokens tokens together, as long as may be, of tokens from all over the vocabulary: what a product gives is judged by
// them. Keys and values go to block 0, which belongs to nobody yet.
Batch make_rehearsal(int num_tokens, const RunnerConfig& config, int64_t vocab_size) {
  Batch batch;
  batch.cu_seqlens_q.push_back(0);
  batch.max_blocks = int(config.batch_limits().max_blocks);
  while (batch.num_tokens() < num_tokens && batch.num_seqs() < config.max_num_seqs) {
    const int length = std::min(num_tokens - batch.num_tokens(), config.max_model_len);
    for (int position = 0; position < length; ++position) {
      batch.token_ids.push_back(TokenId((1 + int64_t{7919} * batch.num_tokens()) % vocab_size));
      batch.positions.push_back(position);
      batch.slot_mapping.push_back(position % config.block_size);
    }
    batch.cu_seqlens_q.push_back(batch.num_tokens());
    batch.seq_lens.push_back(length);
    batch.block_table.resize(size_t(batch.num_seqs() * batch.max_blocks), 0);
  }
  want_logits(batch, 0, std::min(batch.num_tokens(), config.max_num_seqs));
  return batch;
}

}  // namespace

void Worker::rehearse() {
  for (int num_tokens = 1;; num_tokens = std::min(2 * num_tokens, config_.max_num_batched_tokens)) {
    const Batch batch = make_rehearsal(num_tokens, config_, model_.config().vocab_size);
    launch_eagerly(batch);
    config_.ops->device->synchronize();
    if (batch.num_tokens() == config_.max_num_batched_tokens || batch.num_tokens() < num_tokens) break;
  }
  outputs_ = {};
}

Worker::Result::Result(const OpTable& ops, const BatchLimits& limits)
    : ids(ops.device->staging(), size_t(limits.max_num_sampled) * sizeof(TokenId), "sampled ids"),
      logprobs(ops.device->staging(), logprob_words_bytes(limits), "logprobs"),
      begun(*ops.queue),
      there(*ops.queue) {}

Context Worker::context(Arena& arena) {
  return {.ops = *config_.ops,
          .arena = arena,
          .comm = comm_,
          .threads = &threads_,
          .state = state_.get(),
          .trace = trace_};
}

Tensor Worker::forward(Context& ctx, const Batch& batch) {
  inputs_->upload(batch);
  fetch_token_ids(ctx);
  ModelInput in = inputs_->model_input();
  in.kv = cache_->layers();
  outputs_ = {};
  if (batch.num_block_copies() > 0)
    copy_blocks(ctx, {.layers = in.kv, .block_copies = inputs_->block_copies()});
  return model_.forward(ctx, in);
}

Tensor Worker::run_logits(const Batch& batch) {
  ASSERT(num_launched_ == num_collected_);
  Context ctx = context(*arena_);
  const Arena::Scope scope(*arena_);  // the memory stays as it is until the next step
  outputs_.logits = model_.compute_logits(ctx, forward(ctx, batch));
  config_.ops->device->synchronize();
  return outputs_.logits;
}

void Worker::sample_rows(Context& ctx) {
  SampleArgs args = inputs_->sample_args();
  args.logits = outputs_.logits;
  args.out = outputs_.ids = arena_->make(DType::kI32, {outputs_.logits.shape[0]});
  args.num_valid_tokens = config_.num_valid_tokens > 0
                              ? std::min(config_.num_valid_tokens, args.logits.shape[1])
                              : args.logits.shape[1];
  sample(ctx, args);
}

void Worker::project_and_sample(Context& ctx, const Tensor& hidden) {
  outputs_.logits = model_.compute_logits(ctx, hidden);
  if (comm_.rank() == 0) sample_rows(ctx);
}

void Worker::project_and_sample(Context& ctx, const Tensor& hidden, const Batch& batch) {
  outputs_.logits = model_.compute_logits(ctx, hidden);
  if (comm_.rank() != 0) return;
  if (batch.num_logprobs() > 0) find_top_logprobs();
  Result& result = result_of(num_launched_);
  for (size_t i = 0; batch.wants_all_logprobs && i < result.all_logits.size(); ++i)
    if (batch.all_logprobs[i])
      result.all_logits[i] = copy_to_host(*config_.ops->device, outputs_.logits[batch.logprob_rows[i]]);
  EditLogitsArgs edits;
  if (batch.edits_logits()) {
    ASSERT(edits_);
    edits = edits_->upload(batch);
    edits.logits = outputs_.logits;
    edit_logits(ctx, edits);
  }
  sample_rows(ctx);
  if (batch.edits_logits() && batch.num_logprobs() > 0) restore_logits(ctx, edits);
}

void Worker::begin_logprobs(const Batch& batch) {
  Result& result = result_of(num_launched_);
  result.logprob_rows.assign(batch.logprob_rows.begin(), batch.logprob_rows.end());
  result.num_top = batch.num_top_logprobs;
  result.all_logits.clear();
  if (batch.wants_all_logprobs) result.all_logits.resize(size_t(batch.num_logprobs()));
  if (batch.num_logprobs() == 0 || comm_.rank() != 0) return;
  logprob_words_ = Tensor::view(logprob_memory_.data(), DType::kI32,
                                {batch.num_logprobs(), StepLogprobs::width(batch.num_top_logprobs)});
}

// Columns [first, first + count) of the words.
Tensor Worker::logprob_columns(int64_t first, int64_t count, DType dtype) const {
  const Tensor& words = logprob_words_;
  Tensor columns = Tensor::view(words.ptr<int32_t>() + first, dtype, {words.shape[0], count});
  columns.stride[0] = words.shape[1];
  return columns;
}

void Worker::find_top_logprobs() {
  Context ctx = context(*logprobs_arena_);
  const int64_t num_top = result_of(num_launched_).num_top;
  top_logprobs(ctx, {.logits = outputs_.logits,
                     .rows = inputs_->logprob_rows(),
                     .norms = logprob_columns(1, 2, DType::kF32),
                     .top_ids = logprob_columns(3, num_top, DType::kI32),
                     .top_logprobs = logprob_columns(3 + num_top, num_top, DType::kF32)});
}

void Worker::find_token_logprobs() {
  Context ctx = context(*arena_);
  token_logprobs(ctx, {.logits = outputs_.logits,
                       .rows = inputs_->logprob_rows(),
                       .norms = logprob_columns(1, 2, DType::kF32),
                       .ids = outputs_.ids.slice(0, outputs_.logits.shape[0]),
                       .out = logprob_columns(0, 1, DType::kF32)});
}

void Worker::prepare_for_edits() {
  if (!edits_ && comm_.rank() == 0)
    edits_ = std::make_unique<EditBuffers>(*config_.ops, state_.get(), config_.batch_limits(),
                                           model_.config().vocab_size);
}

void Worker::fetch_token_ids(Context& ctx) {
  const Tensor& rows = inputs_->token_rows();
  if (!rows.defined()) return;
  const auto column = [](const Tensor& ids, int64_t count) {
    return Tensor::view(ids.data, DType::kI32, {count, 1});
  };
  gather_rows(ctx, {.out = column(inputs_->model_input().token_ids, rows.shape[0]),
                    .x = column(outputs_.ids, outputs_.ids.shape[0]),
                    .indices = rows});
}

// Decodes alone, each with a token of its own; a trace wants to see every tensor.
bool Worker::can_replay(const Batch& batch) const {
  if (!graphs_.enabled() || trace_ || graphs_.padded_size(batch.num_seqs()) == 0) return false;
  if (batch.num_tokens() != batch.num_seqs() || batch.num_block_copies() > 0 || batch.edits_logits() ||
      batch.wants_all_logprobs)
    return false;
  return batch.all_need_logits();
}

void Worker::launch_decodes(const Batch& batch) {
  const int size = graphs_.padded_size(batch.num_seqs());
  inputs_->upload_decodes(batch, size);
  ModelInput in = inputs_->model_input();
  in.kv = cache_->layers();
  Context ctx = context(*arena_);
  fetch_token_ids(ctx);
  const auto step = [&] {
    const Arena::Scope scope(*arena_);
    project_and_sample(ctx, model_.forward(ctx, in));
  };
  if (graphs_.replay(size)) {
    outputs_ = recorded_.at(size);
  } else {
    step();
    recorded_[size] = outputs_;
    graphs_.record(size, step);
  }
  outputs_.logits = outputs_.logits.slice(0, batch.num_sampled());
}

void Worker::launch_eagerly(const Batch& batch) {
  Context ctx = context(*arena_);
  const Arena::Scope scope(*arena_);
  const Tensor hidden = forward(ctx, batch);
  if (batch.num_sampled() == 0) return;  // only chunks of prompts
  if (batch.edits_logits() || batch.num_logprobs() > 0)
    project_and_sample(ctx, hidden, batch);
  else
    project_and_sample(ctx, hidden);
}

void Worker::launch(const Batch& batch) {
  ASSERT(num_launched_ - num_collected_ < 2);
  Result& result = result_of(num_launched_);
  result.begin_time = Clock::now();
  result.begun.set(state_.get());
  begin_logprobs(batch);
  const bool has_logprobs = batch.num_logprobs() > 0 && comm_.rank() == 0;
  if (can_replay(batch)) {
    launch_decodes(batch);
    if (has_logprobs) find_top_logprobs();
  } else {
    launch_eagerly(batch);
  }
  if (has_logprobs) find_token_logprobs();
  ++num_launched_;
  result.count = comm_.rank() == 0 ? size_t(batch.num_sampled()) : 0;
  const DeviceQueue& queue = *config_.ops->queue;
  if (result.count > 0)
    queue.download(state_.get(), result.ids.data(), outputs_.ids.data, result.count * sizeof(TokenId));
  if (has_logprobs)
    queue.download(state_.get(), result.logprobs.data(), logprob_words_.data,
                   size_t(logprob_words_.num_elements()) * sizeof(int32_t));
  result.there.set(state_.get());
  result.end_time = Clock::now();
}

void Worker::measure_times(int64_t step) {
  const Result& result = result_of(step);
  const Result* before = step > 0 ? &result_of(step - 1) : nullptr;
  if (config_.ops->queue->seconds_between) {
    step_times_ = {result.there.seconds_since(result.begun),
                   before ? result.begun.seconds_since(before->there) : 0};
    return;
  }
  const auto seconds = [](Clock::time_point from, Clock::time_point to) {
    return std::chrono::duration<double>(to - from).count();
  };
  step_times_ = {seconds(result.begin_time, result.end_time),
                 before ? seconds(before->end_time, result.begin_time) : 0};
}

void Worker::discard() noexcept {
  while (num_collected_ < num_launched_) {
    try {
      collect();
    } catch (const std::exception&) {
      // It is known already: somebody was told of the step that failed.
    }
  }
  try {
    config_.ops->device->synchronize();  // a launch that failed may have begun something
  } catch (const std::exception&) {
    // As above.
  }
}

Worker::~Worker() { discard(); }

std::span<const TokenId> Worker::collect() {
  ASSERT(num_collected_ < num_launched_);
  Result& result = result_of(num_collected_++);
  result.there.wait();
  measure_times(num_collected_ - 1);
  logprobs_ = {.rows = result.logprob_rows,
               .num_top = result.num_top,
               .words = {static_cast<const int32_t*>(result.logprobs.data()),
                         result.logprob_rows.size() * size_t(StepLogprobs::width(result.num_top))},
               .all_logits = result.all_logits};
  return {static_cast<const TokenId*>(result.ids.data()), result.count};
}

}  // namespace nanovllm
