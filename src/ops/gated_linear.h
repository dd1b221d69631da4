// SwiGLU's products and its elementwise part: out = silu(x · gateᵀ + b_gate) · (x · upᵀ + b_up).
//
// By definition the ops linear, of the merged weight, and silu_and_mul, bit for bit: both products are rounded to T. A backend
// may do it in one pass (OpTable::gated_linear); where it does not, the single ops run.
#pragma once

#include "ops/weight.h"

namespace nanovllm {

struct GatedLinearArgs {
  Tensor out;     // [num_tokens, intermediate_size] T
  Tensor x;       // [num_tokens, in_features] T
  Weight weight;  // [2 intermediate_size, in_features]: gate, then up
  Tensor bias;    // [2 intermediate_size] f32, optional
};

void gated_linear(Context& ctx, const GatedLinearArgs& args);
// The definition.
void gated_linear_by_single_ops(Context& ctx, const GatedLinearArgs& args);

}  // namespace nanovllm
