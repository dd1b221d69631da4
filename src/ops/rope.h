// Rotary position embedding, halves form (as Qwen and Llama checkpoints in Hugging Face's layout want it).
//
//   x1 = head[0, half), x2 = head[half, 2 half):   (x1, x2) → (x1 cos − x2 sin, x2 cos + x1 sin)
//
// cos and sin come from a table by position (layers/rotary_embedding.h). Each product is rounded, then the
// sum, as in Hugging Face. Only the first rotary_dim = 2 half elements of a head are turned. Su et al. 2021,
// arXiv:2104.09864, eq. 34.
#pragma once

#include <vector>

#include "ops/context.h"

namespace nanovllm {

struct RopeArgs {
  Tensor q;          // [num_tokens, num_heads, head_dim] T; in place
  Tensor k;          // [num_tokens, num_kv_heads, head_dim] T; in place
  Tensor positions;  // [num_tokens] i32
  Tensor cos_sin;    // [max_positions, rotary_dim] f32: rotary_dim / 2 cosines, then as many sines
};

void rope(Context& ctx, const RopeArgs& args);

// One head, in double.
inline std::vector<double> rope_reference(const std::vector<double>& head, const std::vector<double>& cos,
                                          const std::vector<double>& sin) {
  std::vector<double> out = head;
  const size_t half = cos.size();
  for (size_t i = 0; i < half; ++i) {
    out[i] = head[i] * cos[i] - head[half + i] * sin[i];
    out[half + i] = head[half + i] * cos[i] + head[i] * sin[i];
  }
  return out;
}

}  // namespace nanovllm
