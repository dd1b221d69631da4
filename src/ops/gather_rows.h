// out[i] = x[indices[i]], row by row: the rows of a step that need logits.
#pragma once

#include "ops/context.h"

namespace nanovllm {

struct GatherRowsArgs {
  Tensor out;      // [num_rows, width] T
  Tensor x;        // [num_tokens, width] T
  Tensor indices;  // [num_rows] i32, each in [0, num_tokens)
};

void gather_rows(Context& ctx, const GatherRowsArgs& args);

}  // namespace nanovllm
