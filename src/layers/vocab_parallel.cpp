#include "layers/vocab_parallel.h"

#include "ops/linear.h"

namespace nanovllm {

VocabParallelEmbedding::VocabParallelEmbedding(std::string name, int64_t vocab_size, int64_t hidden_size,
                                               TensorParallel tp)
    : weight_(Parameter::matrix({{name + ".weight", vocab_size}}, hidden_size, Shard::kPaddedRows, tp)),
      first_id_(tp.rank * weight_.rows()) {}

void VocabParallelEmbedding::forward(Context& ctx, const Tensor& token_ids, const Tensor& out) const {
  embedding(ctx, {.out = out, .token_ids = token_ids, .table = weight_.weight(), .first_id = first_id_});
  ctx.comm.all_reduce_sum(ctx, out);
}

ParallelLMHead::ParallelLMHead(std::string name, int64_t vocab_size, int64_t hidden_size, TensorParallel tp)
    : own_(Parameter::matrix({{name + ".weight", vocab_size}}, hidden_size, Shard::kPaddedRows, tp)),
      vocab_size_(vocab_size) {}

Tensor ParallelLMHead::forward(Context& ctx, const Tensor& hidden) const {
  const Tensor part = ctx.arena.make(DType::kF32, {hidden.shape[0], weight().out_features});
  linear(ctx, {.out = part, .x = hidden, .weight = weight(), .bias = {}});
  if (ctx.comm.size() == 1) return part;
  const Tensor out =
      ctx.comm.rank() == 0 ? ctx.arena.make(DType::kF32, {hidden.shape[0], vocab_size_}) : Tensor{};
  ctx.comm.gather(ctx, out, part);
  return out;
}

}  // namespace nanovllm
