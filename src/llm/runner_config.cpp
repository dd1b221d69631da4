#include "llm/runner_config.h"

#include <algorithm>

#include "base/error.h"
#include "ops/cpu/cpu_ops.h"

namespace nanovllm {
namespace {

int choose_max_model_len(const EngineConfig& config, const ModelConfig& model_config) {
  if (config.max_model_len > model_config.max_model_len)
    fail(ErrorKind::kConfig, "max_model_len: is ", config.max_model_len, ", want at most ",
         model_config.max_model_len,
         ", as the model's config.json says: max_position_embeddings, rope scaling and sliding_window");
  return config.max_model_len > 0 ? config.max_model_len : model_config.max_model_len;
}

}  // namespace

RunnerConfig make_runner_config(const EngineConfig& config, const ModelConfig& model_config) {
  check_config(config);
  const OpTable& ops = config.instruction_set.empty() ? cpu_ops() : cpu_ops(config.instruction_set);
  const int budget = config.max_num_batched_tokens > 0
                         ? config.max_num_batched_tokens
                         : std::max(ops.default_batched_tokens, config.max_num_seqs);
  return {.ops = &ops,
          .tensor_parallel_size = config.tensor_parallel_size,
          .num_threads = config.num_threads > 0 ? config.num_threads : usable_processors(),
          .max_num_seqs = config.max_num_seqs,
          .max_num_batched_tokens = budget,
          .max_model_len = choose_max_model_len(config, model_config),
          .block_size = config.kvcache_block_size > 0 ? config.kvcache_block_size : ops.default_block_size,
          .num_blocks = std::max(0, config.num_kvcache_blocks),
          .max_kv_bytes = size_t(config.cpu_kvcache_space * double(size_t{1} << 30))};
}

}  // namespace nanovllm
