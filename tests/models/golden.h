// Reference data of tests/golden: tiny random models and what Hugging Face transformers computes with them in
// float32 (tools/make_reference_models.py), and the harness that runs a model over it.
#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <string>
#include <vector>

#include "checkpoint/safetensors.h"
#include "engine/batch.h"
#include "ops/cpu/cpu_ops.h"
#include "runtime/model_runner.h"
#include "support.h"
#include "tensor/copy_to_host.h"

namespace nanovllm::test {

// The named array of a reference.safetensors, widened to float.
inline std::vector<float> reference_array(const Checkpoint& reference, const std::string& name) {
  const CheckpointTensor* tensor = reference.find(name);
  std::vector<float> values(tensor->data.size() / 4);
  if (tensor->dtype == DType::kF32) {
    std::memcpy(values.data(), tensor->data.data(), tensor->data.size());
  } else {
    std::vector<int32_t> ids(values.size());
    std::memcpy(ids.data(), tensor->data.data(), tensor->data.size());
    std::copy(ids.begin(), ids.end(), values.begin());
  }
  return values;
}

inline std::vector<TokenId> reference_ids(const Checkpoint& reference, const std::string& name) {
  const std::vector<float> values = reference_array(reference, name);
  return {values.begin(), values.end()};
}

inline RunnerConfig small_runner(const OpTable& ops = cpu_ops(), int num_threads = 2,
                                 int tensor_parallel_size = 1) {
  return {.ops = &ops,
          .tensor_parallel_size = tensor_parallel_size,
          .num_threads = num_threads,
          .max_num_seqs = 8,
          .max_num_batched_tokens = 256,
          .max_model_len = 256,
          .block_size = 16,
          .num_blocks = 128,
          .logits_for_all_rows = true};
}

inline Sequence make_sequence(const std::vector<TokenId>& ids, int first_block, int num_blocks) {
  Sequence sequence;
  sequence.token_ids = ids;
  sequence.num_prompt_tokens = int(ids.size());
  for (int i = 0; i < num_blocks; ++i) sequence.block_table.push_back(first_block + i);
  return sequence;
}

// All positions of one prompt that are not in the cache, run in chunks of `chunk` tokens.
struct ForwardResult {
  std::vector<std::vector<float>> hidden_states;  // [num_layers + 1][num_tokens * hidden_size]
  std::vector<float> logits;                      // [num_tokens * vocab_size]
};

inline constexpr int kFirstBlock = 3;

// traced: hidden states too; without, a backend may run fused ops. cached: how many tokens, whole blocks, an earlier run of the same prompt has left in the first blocks. The other blocks
// are not the ones of that run.
inline ForwardResult run_prompt(ModelRunner& runner, const std::vector<TokenId>& ids, int chunk,
                                int cached = 0, bool traced = true) {
  ForwardResult result;
  result.hidden_states.resize(size_t(runner.model().config().num_layers) + 1);
  const TraceHook hook = [&](std::string_view name, int layer, const Tensor& t) {
    if (name != "residual" && name != "norm") return;
    auto& out = result.hidden_states[name == "norm" ? result.hidden_states.size() - 1 : size_t(layer)];
    const std::vector<float> values = copy_to_host(*runner.ops().device, t);
    out.insert(out.end(), values.begin(), values.end());
  };
  if (traced) runner.set_trace(&hook);
  Sequence sequence = make_sequence(ids, kFirstBlock, int(ids.size() + 15) / 16);
  sequence.num_computed_tokens = cached;
  if (cached > 0)
    for (size_t i = size_t(cached) / 16; i < sequence.block_table.size(); ++i) sequence.block_table[i] += 60;
  Batch batch;
  while (sequence.num_uncomputed_tokens() > 0) {
    sequence.num_scheduled_tokens = std::min(chunk, sequence.num_uncomputed_tokens());
    build_batch({&sequence}, 16, batch);
    want_logits(batch, 0, batch.num_tokens());
    const std::vector<float> logits = copy_to_host(*runner.ops().device, runner.run_logits(batch));
    result.logits.insert(result.logits.end(), logits.begin(), logits.end());
    sequence.num_computed_tokens += sequence.num_scheduled_tokens;
  }
  runner.set_trace(nullptr);
  return result;
}

inline float largest(const std::vector<float>& values) {
  float max = 0;
  for (const float v : values) max = std::max(max, std::fabs(v));
  return max;
}

// The largest difference; infinite where a value is no number.
inline float largest_difference(const std::vector<float>& a, const std::vector<float>& b) {
  EXPECT_EQ(a.size(), b.size());
  float max = 0;
  for (size_t i = 0; i < std::min(a.size(), b.size()); ++i) {
    const float difference = std::fabs(a[i] - b[i]);
    max = std::isnan(difference) ? INFINITY : std::max(max, difference);
  }
  return max;
}

}  // namespace nanovllm::test
