#include "llm/runner_config.h"

#include <algorithm>

#include "base/error.h"
#include "ops/cpu/cpu_ops.h"
#include "ops/cuda/cuda_ops.h"

namespace nanovllm {
namespace {

int choose_max_model_len(const EngineConfig& config, const ModelConfig& model_config) {
  if (config.max_model_len > model_config.max_model_len)
    fail(ErrorKind::kConfig, "max_model_len: is ", config.max_model_len, ", want at most ",
         model_config.max_model_len,
         ", as the model's config.json says: max_position_embeddings, rope scaling and sliding_window");
  return config.max_model_len > 0 ? config.max_model_len : model_config.max_model_len;
}

DType choose_dtype(const EngineConfig& config, const ModelConfig& model_config) {
  const DType own = model_config.dtype.value_or(DType::kF32);
  if (config.dtype == "auto") {
    if (cuda_has_head_dim(own, model_config.head_dim)) return own;
    warn("cuda: there is no kernel for a head_dim of " + std::to_string(model_config.head_dim) + " in " +
         std::string(dtype_name(own)) +
         ", so this model runs in float32, slowly; --device cpu may be faster");
    return DType::kF32;
  }
  const DType dtype = config.dtype == "bfloat16"  ? DType::kBF16
                      : config.dtype == "float16" ? DType::kF16
                                                  : DType::kF32;
  if (dtype != own && dtype != DType::kF32)
    fail(ErrorKind::kUnsupported, "dtype: is ", config.dtype, ", and the model's weights are ",
         dtype_name(own), " by its config.json: want auto or float32");
  if (!cuda_has_head_dim(dtype, model_config.head_dim))
    fail(ErrorKind::kUnsupported, "dtype: is ", config.dtype, ", and the model has a head_dim of ",
         model_config.head_dim, ", want 16, 32, 64 or 128, or dtype float32");
  return dtype;
}

// auto: a GPU, unless something is asked for that only the CPU has.
const OpTable& choose_ops(const EngineConfig& config, const ModelConfig& model_config) {
  const bool cpu_asked =
      !config.instruction_set.empty() || config.tensor_parallel_size > 1 || config.cpu_kvcache_space > 0;
  const bool cuda =
      config.device == "cuda" || (config.device == "auto" && !cpu_asked && cuda_unavailable().empty());
  if (!cuda) {
    if (config.dtype != "auto" && config.dtype != "float32")
      fail(ErrorKind::kUnsupported, "dtype: is ", config.dtype,
           ", want auto or float32 on the CPU, which computes in float32 whatever the weights are");
    return config.instruction_set.empty() ? cpu_ops() : cpu_ops(config.instruction_set);
  }
  if (!config.instruction_set.empty())
    fail(ErrorKind::kConfig, "instruction_set: is ", config.instruction_set, ", want none with device cuda");
  if (config.cpu_kvcache_space > 0)
    fail(ErrorKind::kConfig, "cpu_kvcache_space: is ", config.cpu_kvcache_space,
         ", want none with device cuda: gpu_memory_utilization is its limit");
  if (config.tensor_parallel_size > 1)
    fail(ErrorKind::kUnsupported, "tensor_parallel_size: is ", config.tensor_parallel_size,
         ", want 1 with device cuda");
  return cuda_ops(choose_dtype(config, model_config));
}

}  // namespace

RunnerConfig make_runner_config(const EngineConfig& config, const ModelConfig& model_config) {
  check_config(config);
  const OpTable& ops = choose_ops(config, model_config);
  const int budget = config.max_num_batched_tokens > 0
                         ? config.max_num_batched_tokens
                         : std::max(ops.default_batched_tokens, config.max_num_seqs);
  return {.ops = &ops,
          .tensor_parallel_size = config.tensor_parallel_size,
          .num_threads = ops.device->memory().total > 0 ? 1  // a GPU's rank has no work for others
                         : config.num_threads > 0       ? config.num_threads
                                                        : usable_processors(),
          .max_num_seqs = config.max_num_seqs,
          .max_num_batched_tokens = budget,
          .max_model_len = choose_max_model_len(config, model_config),
          .block_size = config.kvcache_block_size > 0 ? config.kvcache_block_size : ops.default_block_size,
          .num_blocks = std::max(0, config.num_kvcache_blocks),
          .max_kv_bytes = size_t(config.cpu_kvcache_space * double(size_t{1} << 30)),
          .gpu_memory_utilization = config.gpu_memory_utilization,
          .dummy_weights = config.load_format == "dummy",
          .enforce_eager = config.enforce_eager};
}

}  // namespace nanovllm
