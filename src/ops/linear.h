// Linear layer: out = x · weightᵀ + bias.
//
// One definition of every sum (docs/design.md, decision 8). K = in_features is cut into num_segments equal
// parts, each one chain in order of k, accumulated in float32 from zero:
//
//   s_i[t, n] = chain over k in part i of fma(x[t, k], weight[n, k], s_i)
//   out       [num_segments, num_tokens, out_features]
//
// bias is added to s_0 after its chain. Column-parallel products have one segment, and out is then
// [num_tokens, out_features], rounded once to its dtype. Row-parallel ones have four (one where 4 does not
// divide K): the reader sums them as (s0 + s1) + (s2 + s3), so ranks that own whole parts add up to the same
// bits.
#pragma once

#include <vector>

#include "ops/weight.h"

namespace nanovllm {

struct LinearArgs {
  Tensor out;     // [num_tokens, out_features] T, or [num_segments, num_tokens, out_features] f32
  Tensor x;       // [num_tokens, in_features] T
  Weight weight;  // [out_features, in_features] f32, f16 or bf16: widened as it is read
  Tensor bias;    // [out_features] f32, optional
};

void linear(Context& ctx, const LinearArgs& args);

// The definition, for people and for tests: one row of x, in double, nothing rounded.
inline std::vector<double> linear_reference(const std::vector<double>& x, const std::vector<double>& weight,
                                            const std::vector<double>& bias) {
  std::vector<double> out(weight.size() / x.size());
  for (size_t n = 0; n < out.size(); ++n) {
    out[n] = bias.empty() ? 0 : bias[n];
    for (size_t k = 0; k < x.size(); ++k) out[n] += x[k] * weight[n * x.size() + k];
  }
  return out;
}

}  // namespace nanovllm
