#include "llm/forward_trace.h"

#include <algorithm>

#include "base/error.h"
#include "engine/batch.h"
#include "llm/runner_config.h"
#include "runtime/model_runner.h"
#include "tensor/copy_to_host.h"

namespace nanovllm {
namespace {

bool is_partial_sums(std::string_view name) {
  return name.ends_with("o_proj") || name.ends_with("down_proj");
}

std::string full_name(std::string_view name, int layer) {
  if (layer < 0) return "model." + std::string(name);
  return "model.layers." + std::to_string(layer) + "." + std::string(name);
}

// The sum of [num_segments, num_tokens, hidden_size], by the layer's tree (ops/linear.h).
void sum_segments(TraceStep& step) {
  const size_t num_segments = size_t(step.shape[0]), count = step.values.size() / num_segments;
  std::vector<float>& v = step.values;
  for (size_t i = 0; num_segments == 4 && i < count; ++i)
    v[i] = (v[i] + v[count + i]) + (v[2 * count + i] + v[3 * count + i]);
  v.resize(count);
  step.shape.erase(step.shape.begin());
}

TraceStep make_step(const Device& device, std::string_view name, int layer, const Tensor& tensor) {
  TraceStep step{.name = full_name(name, layer), .layer = layer};
  step.shape.assign(tensor.shape.begin(), tensor.shape.begin() + tensor.rank);
  step.values = copy_to_host(device, tensor);
  if (is_partial_sums(name)) sum_segments(step);
  return step;
}

}  // namespace

std::vector<TraceStep> trace_forward(EngineConfig config, std::span<const TokenId> prompt) {
  const ModelConfig model_config = read_model_config(config.model);
  const int num_tokens = int(prompt.size());
  if (num_tokens < 1 || num_tokens > model_config.max_model_len)
    fail(ErrorKind::kRequest, "prompt: has ", num_tokens, " tokens, want 1 to ", model_config.max_model_len);
  for (const TokenId id : prompt)
    if (id < 0 || id >= model_config.vocab_size)
      fail(ErrorKind::kRequest, "prompt: has token id ", id, ", want ids from 0 to ",
           model_config.vocab_size - 1);
  config.max_num_seqs = 1;
  config.max_num_batched_tokens = config.max_model_len = num_tokens;
  RunnerConfig runner_config = make_runner_config(config, model_config);
  runner_config.num_blocks = (num_tokens + runner_config.block_size - 1) / runner_config.block_size;
  ModelRunner runner(config.model, model_config, runner_config);
  const Device& device = *runner_config.ops->device;

  Sequence sequence;
  sequence.token_ids.assign(prompt.begin(), prompt.end());
  sequence.num_prompt_tokens = sequence.num_scheduled_tokens = num_tokens;
  for (int i = 0; i * runner_config.block_size < num_tokens; ++i) sequence.block_table.push_back(i);
  Batch batch;
  build_batch({&sequence}, runner_config.block_size, batch);

  runner.run_logits(batch);  // the first one is slow, and computes the same
  std::vector<TraceStep> steps;
  Clock::time_point last = Clock::now();
  const auto add = [&](TraceStep step, Clock::time_point now) {
    step.seconds = std::chrono::duration<double>(now - last).count();
    steps.push_back(std::move(step));
    last = Clock::now();  // what looking took is nobody's
  };
  const TraceHook hook = [&](std::string_view name, int layer, const Tensor& tensor) {
    device.synchronize();
    const Clock::time_point now = Clock::now();
    add(make_step(device, name, layer, tensor), now);
  };
  runner.set_trace(&hook);
  const Tensor logits = runner.run_logits(batch);
  device.synchronize();
  const Clock::time_point now = Clock::now();
  TraceStep step = make_step(device, "", -1, logits);
  step.name = "logits";
  add(std::move(step), now);
  return steps;
}

}  // namespace nanovllm
