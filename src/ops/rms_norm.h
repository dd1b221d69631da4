// RMSNorm, alone and fused with the residual add before it.
//
//   rms_norm:      out = round_T( round_T(x / sqrt(mean(x^2) + eps)) * weight )
//   add_rms_norm:  r   = round_T( ((s0 + s1) + (s2 + s3)) + residual )        stored back into residual
//                  out = round_T( round_T(r / sqrt(mean(r^2) + eps)) * weight )
//
// s_i are the float32 partial sums of a row-parallel product (ops/linear.h); one or two are summed alike.
// mean is over the last dimension, in float32, by one fixed tree: lane j of 16 chains the squares of elements
// j, j + 16, ...; lanes are added i and i + 8, i and i + 4, i and i + 2, i and i + 1. T is the activation
// dtype (float32: no rounding). One pass over memory: reads and writes each operand once. Zhang & Sennrich
// 2019, arXiv:1910.07467, eq. 4.
#pragma once

#include <cmath>
#include <vector>

#include "ops/context.h"

namespace nanovllm {

struct RmsNormArgs {
  Tensor
      out;   // [num_tokens, hidden_size] or [num_tokens, num_heads, head_dim], T; may be the same memory as x
  Tensor x;  // as out
  Tensor weight;  // [hidden_size] or [head_dim], f32
  float eps = 1e-6f;
};

struct AddRmsNormArgs {
  Tensor out;           // [num_tokens, hidden_size] T; may be the same memory as partial_sums[0]
  Tensor partial_sums;  // [num_segments, num_tokens, hidden_size] f32, num_segments 1, 2 or 4
  Tensor residual;      // [num_tokens, hidden_size] T; updated in place
  Tensor weight;        // [hidden_size] f32
  float eps = 1e-6f;
};

void rms_norm(Context& ctx, const RmsNormArgs& args);
void add_rms_norm(Context& ctx, const AddRmsNormArgs& args);

// The definition, for people and for tests: one row, in double, nothing rounded.
inline std::vector<double> rms_norm_reference(const std::vector<double>& x, const std::vector<double>& weight,
                                              double eps) {
  double sum_squares = 0;
  for (double v : x) sum_squares += v * v;
  const double scale = 1 / std::sqrt(sum_squares / double(x.size()) + eps);
  std::vector<double> out(x.size());
  for (size_t i = 0; i < x.size(); ++i) out[i] = x[i] * scale * weight[i];
  return out;
}

}  // namespace nanovllm
