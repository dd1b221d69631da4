#include "llm/config.h"

#include "base/error.h"
#include "engine/sampling_params.h"
#include "parallel/thread_ranks.h"

namespace nanovllm {

void check_config(const EngineConfig& config) {
  const auto within = [](const char* name, int value, int min, int max) {
    if (value < min) fail(ErrorKind::kConfig, name, ": is ", value, ", want at least ", min);
    if (value > max) fail(ErrorKind::kConfig, name, ": is ", value, ", want at most ", max);
  };
  constexpr int kMany = 1 << 24;  // no machine comes near; keeps products of two of them in 64 bits
  ThreadRanks::check_size(config.tensor_parallel_size);
  within("num_threads", config.num_threads, 0, 1024);
  within("max_model_len", config.max_model_len, 0, kMany);
  within("max_num_seqs", config.max_num_seqs, 1, 1 << 16);
  within("max_logprobs", config.max_logprobs, -1, kMaxLogprobs);
  within("max_num_batched_tokens", config.max_num_batched_tokens, 0, kMany);
  within("kvcache_block_size", config.kvcache_block_size, 0, 1 << 16);
  within("num_kvcache_blocks", config.num_kvcache_blocks, -1, kMany);
  if (config.num_kvcache_blocks == 0)
    fail(ErrorKind::kConfig, "num_kvcache_blocks: is 0, want -1 or at least 1");
  if (!(config.cpu_kvcache_space >= 0 && config.cpu_kvcache_space <= 1 << 20))
    fail(ErrorKind::kConfig, "cpu_kvcache_space: is ", config.cpu_kvcache_space, ", want 0 to 1048576 GiB");
  if (!(config.gpu_memory_utilization > 0 && config.gpu_memory_utilization <= 1))
    fail(ErrorKind::kConfig, "gpu_memory_utilization: is ", config.gpu_memory_utilization,
         ", want more than 0 and at most 1");
  const auto one_of = [](const char* name, const std::string& value,
                         std::initializer_list<const char*> names) {
    std::string want;
    for (const char* each : names) {
      if (value == each) return;
      want += (want.empty() ? "" : ", ") + std::string(each);
    }
    fail(ErrorKind::kConfig, name, ": is ", value, ", want one of ", want);
  };
  one_of("device", config.device, {"auto", "cpu", "cuda"});
  one_of("dtype", config.dtype, {"auto", "bfloat16", "float16", "float32"});
  one_of("load_format", config.load_format, {"auto", "dummy"});
  one_of("async_scheduling", config.async_scheduling, {"auto", "on", "off"});
  if (config.max_num_batched_tokens > 0 && config.max_num_batched_tokens < config.max_num_seqs)
    fail(ErrorKind::kConfig, "max_num_batched_tokens: is ", config.max_num_batched_tokens,
         ", want at least max_num_seqs=", config.max_num_seqs,
         ", so that a step can take a token of each sequence");
}

}  // namespace nanovllm
