#include "runtime/memory_plan.h"

#include <algorithm>
#include <fstream>
#include <string>

#include "ops/ops.h"

namespace nanovllm {
namespace {

size_t read_number(const char* path) {
  std::ifstream file(path);
  size_t value = 0;
  return file >> value ? value : 0;
}

}  // namespace

size_t measure_activations(const OpTable& ops, const Decoder& model, const BatchLimits& limits,
                           int num_threads) {
  Arena arena = Arena::measuring();
  SingleRank comm;
  Context ctx{.ops = dry_ops(), .arena = arena, .comm = comm};
  const auto ints = [&](std::initializer_list<int64_t> shape) {
    return Tensor::view(arena.make(DType::kI32, {0}).data, DType::kI32, shape);
  };
  const ModelConfig& config = model.config();
  const std::vector<KvLayer> kv(size_t(config.num_layers),
                                KvLayer{.num_kv_heads = config.num_kv_heads, .head_dim = config.head_dim});
  const ModelInput in{.token_ids = ints({limits.max_num_tokens}),
                      .positions = ints({limits.max_num_tokens}),
                      .attn = {.cu_seqlens_q = ints({limits.max_num_seqs + 1}),
                               .seq_lens = ints({limits.max_num_seqs}),
                               .block_table = ints({limits.max_num_seqs, limits.max_blocks}),
                               .slot_mapping = ints({limits.max_num_tokens})},
                      .logits_indices = ints({limits.max_num_sampled}),
                      .kv = kv};
  model.compute_logits(ctx, model.forward(ctx, in));
  arena.make(DType::kI32, {limits.max_num_sampled});  // the sampled ids
  return arena.peak() + ops.workspace_bytes(num_threads, limits.max_num_seqs, config.vocab_size);
}

size_t available_memory() {
  std::ifstream meminfo("/proc/meminfo");
  size_t available = 0;
  for (std::string key; meminfo >> key;) {
    size_t kib = 0;
    if (key == "MemAvailable:" && meminfo >> kib) available = kib << 10;
  }
  const size_t limit = read_number("/sys/fs/cgroup/memory.max");  // "max": no limit
  const size_t used = read_number("/sys/fs/cgroup/memory.current");
  if (limit > 0) available = std::min(available, limit - std::min(limit, used));
  return available;
}

}  // namespace nanovllm
