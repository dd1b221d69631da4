// Linear layers, by how their weight is split over ranks (Shoeybi et al. 2019, arXiv:1909.08053, section 3).
//
//   ReplicatedLinear             every rank has all of it
//   ColumnParallelLinear         output rows are split; communicates nothing
//   MergedColumnParallelLinear   several of these, stacked: gate_proj and up_proj
//   QKVParallelLinear            q_proj, k_proj, v_proj stacked, split by heads; ranks share kv heads where there are
//                                fewer of these
//   RowParallelLinear            the input is split; one all-reduce. Gives partial sums (ops/linear.h): the add +
//                                RMSNorm that follows sums them and rounds once
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "layers/parameter.h"
#include "ops/linear.h"

namespace nanovllm {

// A layer's visit_parameters(visit) calls visit(Parameter&) for each of its parameters, in the order of the forward; this
// is its part for a parameter that not every model has.
template <class Visitor>
void visit_optional(std::optional<Parameter>& parameter, Visitor&& visit) {
  if (parameter) visit(*parameter);
}

// One output of a stacked layer: "model.layers.0.mlp.gate_proj", its rows over all ranks.
struct LinearPart {
  std::string name;
  int64_t out_features = 0;
  int num_shards = 0;  // as in ParameterPart
};

struct LinearOptions {
  bool bias = false;
};

class ColumnParallelLinear {
 public:
  static constexpr const char* kType = "ColumnParallelLinear";

  ColumnParallelLinear(std::vector<LinearPart> parts, int64_t in_features, LinearOptions options,
                       TensorParallel tp, Shard shard = Shard::kRows);

  // x [num_tokens, in_features] → [num_tokens, this rank's out_features], in the arena
  Tensor forward(Context& ctx, const Tensor& x) const;

  template <class Visitor>
  void visit_parameters(Visitor&& visit) {
    visit(weight_);
    visit_optional(bias_, visit);
  }

 protected:
  Parameter weight_;
  std::optional<Parameter> bias_;
};

class ReplicatedLinear : public ColumnParallelLinear {
 public:
  static constexpr const char* kType = "ReplicatedLinear";

  ReplicatedLinear(std::string name, int64_t in_features, int64_t out_features, LinearOptions options,
                   TensorParallel tp);
};

// gate and up in one product.
class MergedColumnParallelLinear : public ColumnParallelLinear {
 public:
  static constexpr const char* kType = "MergedColumnParallelLinear";

  MergedColumnParallelLinear(std::vector<LinearPart> parts, int64_t in_features, LinearOptions options,
                             TensorParallel tp)
      : ColumnParallelLinear(std::move(parts), in_features, options, tp) {}

  // This rank's intermediate_size.
  int64_t gated_features() const { return weight_.weight().out_features / 2; }
  // x [num_tokens, in_features] → out = silu(gate) · up [num_tokens, gated_features()]
  void forward_gated(Context& ctx, const Tensor& x, const Tensor& out) const;
};

class QKVParallelLinear : public ColumnParallelLinear {
 public:
  static constexpr const char* kType = "QKVParallelLinear";

  // Whether heads, and kv heads or else the ranks that share one, come out whole.
  static bool can_split(int num_heads, int num_kv_heads, int tp_size);

  // prefix: "model.layers.0.self_attn."
  // throws Error(kUnsupported): cannot be split
  QKVParallelLinear(const std::string& prefix, int64_t hidden_size, int num_heads, int num_kv_heads,
                    int head_dim, LinearOptions options, TensorParallel tp);
};

class RowParallelLinear {
 public:
  static constexpr const char* kType = "RowParallelLinear";

  // Whether every rank has whole quarters of in_features.
  static bool can_split(int64_t in_features, int tp_size);

  // throws Error(kUnsupported): cannot be split
  RowParallelLinear(std::string name, int64_t in_features, int64_t out_features, LinearOptions options,
                    TensorParallel tp);

  // How many partial sums forward() gives on each rank: four, or one where 4 does not divide in_features;
  // with several ranks one, already summed over all of them.
  int num_partial_sums() const { return tp_.size == 1 ? num_segments_ : 1; }

  // x [num_tokens, this rank's in_features] → partial_sums [num_partial_sums(), num_tokens, out_features] f32.
  // With several ranks these sums are whole: one all-reduce.
  void forward(Context& ctx, const Tensor& x, const Tensor& partial_sums) const;

  template <class Visitor>
  void visit_parameters(Visitor&& visit) {
    visit(weight_);
    visit_optional(bias_, visit);
  }

 private:
  Parameter weight_;
  std::optional<Parameter> bias_;
  TensorParallel tp_;
  int num_segments_;  // on this rank: 4, 2 or 1
};

}  // namespace nanovllm
