#include "llm/config.h"

#include <cmath>

#include "base/error.h"

namespace nanovllm {

void check_config(const EngineConfig& config) {
  const auto at_least = [](const char* name, int value, int min) {
    if (value < min) fail(ErrorKind::kConfig, name, ": is ", value, ", want at least ", min);
  };
  at_least("num_threads", config.num_threads, 0);
  at_least("max_model_len", config.max_model_len, 0);
  at_least("max_num_seqs", config.max_num_seqs, 1);
  at_least("max_num_batched_tokens", config.max_num_batched_tokens, 0);
  at_least("kvcache_block_size", config.kvcache_block_size, 0);
  at_least("num_kvcache_blocks", config.num_kvcache_blocks, -1);
  if (config.num_threads > 1024)
    fail(ErrorKind::kConfig, "num_threads: is ", config.num_threads, ", want at most 1024");
  if (config.num_kvcache_blocks == 0)
    fail(ErrorKind::kConfig, "num_kvcache_blocks: is 0, want -1 or at least 1");
  if (!(config.cpu_kvcache_space >= 0) || !std::isfinite(config.cpu_kvcache_space))
    fail(ErrorKind::kConfig, "cpu_kvcache_space: is ", config.cpu_kvcache_space, ", want 0 or more GiB");
  if (config.max_num_batched_tokens > 0 && config.max_num_batched_tokens < config.max_num_seqs)
    fail(ErrorKind::kConfig, "max_num_batched_tokens: is ", config.max_num_batched_tokens,
         ", want at least max_num_seqs=", config.max_num_seqs,
         ", so that a step can take a token of each sequence");
}

}  // namespace nanovllm
