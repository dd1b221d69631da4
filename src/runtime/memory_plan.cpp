#include "runtime/memory_plan.h"

#include <algorithm>
#include <fstream>
#include <string>

#include "ops/ops.h"

namespace nanovllm {
namespace {

size_t read_number(const std::filesystem::path& path) {
  std::ifstream file(path);
  size_t value = 0;
  return file >> value ? value : 0;
}

// The number after a word: "MemAvailable:  123", "inactive_file 456"; 0 where there is none.
size_t read_number_after(const std::filesystem::path& path, std::string_view word) {
  std::ifstream file(path);
  for (std::string key; file >> key;) {
    size_t value = 0;
    if (key == word && file >> value) return value;
  }
  return 0;
}

// A rank that talks to nobody.
class DryRank final : public Communicator {
 public:
  explicit DryRank(TensorParallel tp) : tp_(tp) {}
  int rank() const override { return tp_.rank; }
  int size() const override { return tp_.size; }
  void all_reduce_sum(Context&, const Tensor&) override {}
  void gather(Context&, const Tensor&, const Tensor&) override {}

 private:
  TensorParallel tp_;
};

}  // namespace

size_t measure_activations(const OpTable& ops, const Decoder& model, TensorParallel tp,
                           const BatchLimits& limits, int num_threads) {
  Arena arena = Arena::measuring();
  DryRank comm(tp);
  const OpTable dry = dry_ops(ops);
  Context ctx{.ops = dry, .arena = arena, .comm = comm};
  const auto ints = [&](std::initializer_list<int64_t> shape) {
    return Tensor::view(arena.make(DType::kI32, {0}).data, DType::kI32, shape);
  };
  const ModelConfig& config = model.config();
  const std::vector<KvLayer> kv(size_t(config.num_layers), KvLayer{.dtype = ops.kv_dtype,
                                                                   .block_size = ops.default_block_size,
                                                                   .num_kv_heads = model.num_kv_heads(),
                                                                   .head_dim = config.head_dim});
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
  return arena.peak() + ops.workspace_bytes({.num_threads = num_threads,
                                             .num_seqs = limits.max_num_seqs,
                                             .max_blocks = limits.max_blocks,
                                             .vocab_size = config.vocab_size,
                                             .block_size = limits.block_size,
                                             .head_dim = config.head_dim});
}

size_t available_memory(const std::filesystem::path& root) {
  const std::filesystem::path cgroup = root / "sys/fs/cgroup";
  size_t available = read_number_after(root / "proc/meminfo", "MemAvailable:") << 10;
  const size_t limit = read_number(cgroup / "memory.max");  // "max": no limit
  if (limit == 0) return available;
  const size_t cache = read_number_after(cgroup / "memory.stat", "inactive_file") +
                       read_number_after(cgroup / "memory.stat", "active_file");
  const size_t current = read_number(cgroup / "memory.current");
  const size_t used = current - std::min(current, cache);
  return std::min(available, limit - std::min(limit, used));
}

}  // namespace nanovllm
