// SwiGLU's elementwise part: out = silu(gate) · up, silu(x) = x / (1 + exp(−x)).
//
// gate and up are the halves of one row, as the merged gate_up product leaves them. Float32 inside, one
// rounding to T. Shazeer 2020, arXiv:2002.05202, section 2.
#pragma once

#include <cmath>

#include "ops/context.h"

namespace nanovllm {

struct SiluAndMulArgs {
  Tensor out;      // [num_tokens, intermediate_size] T
  Tensor gate_up;  // [num_tokens, 2 intermediate_size] T: gate, then up
};

void silu_and_mul(Context& ctx, const SiluAndMulArgs& args);

inline double silu_and_mul_reference(double gate, double up) { return gate / (1 + std::exp(-gate)) * up; }

}  // namespace nanovllm
