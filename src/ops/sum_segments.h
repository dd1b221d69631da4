// Adds the partial sums of a row-parallel product (ops/linear.h) that one rank owns, so that ranks exchange one sum each.
//
//   out = s0 + s1   float32
//
// The first level of the tree (s0 + s1) + (s2 + s3), whose second is the sum over two ranks: so these get the bits that
// add_rms_norm has where one rank owns all four.
#pragma once

#include "ops/context.h"

namespace nanovllm {

struct SumSegmentsArgs {
  Tensor out;           // [num_tokens, hidden_size] f32; not partial_sums' memory
  Tensor partial_sums;  // [num_segments, num_tokens, hidden_size] f32, num_segments 2
};

void sum_segments(Context& ctx, const SumSegmentsArgs& args);

}  // namespace nanovllm
