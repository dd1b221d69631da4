// RMSNorm with its weight (ops/rms_norm.h): alone, or fused with the residual add before it.
#pragma once

#include <string>

#include "layers/parameter.h"

namespace nanovllm {

class RMSNorm {
 public:
  static constexpr const char* kType = "RMSNorm";

  RMSNorm(std::string name, int64_t size, float eps, TensorParallel tp)
      : weight_(Parameter::vector({{name + ".weight", size}}, Shard::kReplicated, tp)), eps_(eps) {}

  // x may be out; [num_tokens, size] or [num_tokens, num_heads, size]
  void forward(Context& ctx, const Tensor& x, const Tensor& out) const;

  // residual += the partial sums of a row-parallel layer; out = norm(residual)
  void add_forward(Context& ctx, const Tensor& partial_sums, const Tensor& residual, const Tensor& out) const;

  const Tensor& weight() const { return weight_.values(); }
  float eps() const { return eps_; }

  template <class Visitor>
  void visit_parameters(Visitor&& visit) {
    visit(weight_);
  }

 private:
  Parameter weight_;
  float eps_;
};

}  // namespace nanovllm
