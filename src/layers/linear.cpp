#include "layers/linear.h"

#include <algorithm>

#include "base/error.h"
#include "ops/gated_linear.h"
#include "ops/sum_segments.h"

namespace nanovllm {
namespace {

std::vector<ParameterPart> parts_named(const std::vector<LinearPart>& parts, const char* suffix) {
  std::vector<ParameterPart> result;
  for (const LinearPart& part : parts)
    result.push_back({part.name + suffix, part.out_features, part.num_shards});
  return result;
}

std::optional<Parameter> make_bias(const std::vector<LinearPart>& parts, LinearOptions options, Shard shard,
                                   TensorParallel tp) {
  if (!options.bias) return std::nullopt;
  return Parameter::vector(parts_named(parts, ".bias"), shard, tp);
}

// A row-parallel product is four chains over quarters of K (docs/design.md, decision 8), shared out among the
// ranks.
int segments_of(const std::string& name, int64_t in_features, TensorParallel tp) {
  if (in_features % 4 == 0 && 4 % tp.size == 0) return 4 / tp.size;
  if (RowParallelLinear::can_split(in_features, tp.size)) return 1;
  fail(ErrorKind::kUnsupported, name, ": has ", in_features, " inputs for ", tp.size,
       " ranks, want a multiple of 4 inputs and 1, 2 or 4 ranks");
}

// A head is computed by one rank, with the kv head that it reads.
TensorParallel check_heads(const std::string& prefix, int num_heads, int num_kv_heads, TensorParallel tp) {
  if (!QKVParallelLinear::can_split(num_heads, num_kv_heads, tp.size))
    fail(ErrorKind::kUnsupported, prefix, "qkv_proj: has ", num_heads, " heads and ", num_kv_heads,
         " kv heads for ", tp.size, " ranks, want multiples of ", tp.size, ", or kv heads that divide it");
  return tp;
}

}  // namespace

ColumnParallelLinear::ColumnParallelLinear(std::vector<LinearPart> parts, int64_t in_features,
                                           LinearOptions options, TensorParallel tp, Shard shard)
    : weight_(Parameter::matrix(parts_named(parts, ".weight"), in_features, shard, tp)),
      bias_(make_bias(parts, options, shard, tp)) {}

Tensor ColumnParallelLinear::forward(Context& ctx, const Tensor& x) const {
  const Tensor out = ctx.arena.make(x.dtype, {x.shape[0], weight_.weight().out_features});
  linear(ctx, {.out = out, .x = x, .weight = weight_.weight(), .bias = bias_ ? bias_->values() : Tensor{}});
  return out;
}

void MergedColumnParallelLinear::forward_gated(Context& ctx, const Tensor& x, const Tensor& out) const {
  gated_linear(ctx,
               {.out = out, .x = x, .weight = weight_.weight(), .bias = bias_ ? bias_->values() : Tensor{}});
}

ReplicatedLinear::ReplicatedLinear(std::string name, int64_t in_features, int64_t out_features,
                                   LinearOptions options, TensorParallel tp)
    : ColumnParallelLinear({{std::move(name), out_features}}, in_features, options, tp, Shard::kReplicated) {}

QKVParallelLinear::QKVParallelLinear(const std::string& prefix, int64_t hidden_size, int num_heads,
                                     int num_kv_heads, int head_dim, LinearOptions options, TensorParallel tp)
    : ColumnParallelLinear(
          {{prefix + "q_proj", int64_t(num_heads) * head_dim},
           {prefix + "k_proj", int64_t(num_kv_heads) * head_dim, std::min(num_kv_heads, tp.size)},
           {prefix + "v_proj", int64_t(num_kv_heads) * head_dim, std::min(num_kv_heads, tp.size)}},
          hidden_size, options, check_heads(prefix, num_heads, num_kv_heads, tp)) {}

bool QKVParallelLinear::can_split(int num_heads, int num_kv_heads, int tp_size) {
  return num_heads % tp_size == 0 && (num_kv_heads % tp_size == 0 || tp_size % num_kv_heads == 0);
}

bool RowParallelLinear::can_split(int64_t in_features, int tp_size) {
  return tp_size == 1 || (in_features % 4 == 0 && 4 % tp_size == 0);
}

RowParallelLinear::RowParallelLinear(std::string name, int64_t in_features, int64_t out_features,
                                     LinearOptions options, TensorParallel tp)
    : weight_(Parameter::matrix({{name + ".weight", out_features}}, in_features, Shard::kColumns, tp)),
      bias_(make_bias({{name, out_features}}, {options.bias && tp.rank == 0}, Shard::kReplicated, tp)),
      tp_(tp),
      num_segments_(segments_of(name, in_features, tp)) {}

void RowParallelLinear::forward(Context& ctx, const Tensor& x, const Tensor& partial_sums) const {
  const Arena::Scope scope(ctx.arena);
  const bool in_place = tp_.size == 1 || num_segments_ == 1;
  const Tensor segments =
      in_place ? partial_sums
               : ctx.arena.make(DType::kF32, {num_segments_, partial_sums.shape[1], partial_sums.shape[2]});
  linear(ctx,
         {.out = segments, .x = x, .weight = weight_.weight(), .bias = bias_ ? bias_->values() : Tensor{}});
  if (!in_place) sum_segments(ctx, {.out = partial_sums[0], .partial_sums = segments});
  if (tp_.size > 1) ctx.comm.all_reduce_sum(ctx, partial_sums[0]);
}

}  // namespace nanovllm
