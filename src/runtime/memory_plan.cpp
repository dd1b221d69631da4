#include "runtime/memory_plan.h"

#include <algorithm>

#include "ops/ops.h"

namespace nanovllm {
namespace {

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

int64_t bias_features(const ModelConfig& config, TensorParallel tp) {
  const int64_t heads = config.num_heads + 2 * config.num_kv_heads;
  return std::max(config.qkv_bias ? heads * config.head_dim : 0,
                  config.mlp_bias ? 2 * config.intermediate_size / tp.size : 0);
}

}  // namespace

size_t estimate_driver_bytes(const ModelConfig& config, int num_graphs) {
  // CUDA 13 on an H200 takes 9 to 20 MB for the code of kernels, ours and cuBLASLt's, 2.7 KB for a recorded kernel, and whole pages
  // for each buffer: two a layer, and what a step needs.
  constexpr size_t kCode = size_t{128} << 20, kRecordedKernel = size_t{4} << 10, kPage = size_t{2} << 20;
  const size_t layers = size_t(config.num_layers), kernels = 10 * layers + 20;
  return kCode + size_t(num_graphs) * kernels * kRecordedKernel + (2 * layers + 10) * kPage;
}

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
                                                                   .block_size = limits.block_size,
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
                                             .head_dim = config.head_dim,
                                             .num_tokens = limits.max_num_tokens,
                                             .bias_features = bias_features(config, tp)});
}

}  // namespace nanovllm
