// From logits to one token id a row.
//
//   ids in [num_valid_tokens, vocab_size) pad the vocabulary and are never taken
//   temperature < 1e-5 or top_k = 1
//                        the largest logit, ties to the lower id
//   otherwise            x = logit / temperature
//     min_p > 0          keeps x >= max x + log(min_p): up to rounding, probabilities from min_p of the largest on
//     top_k > 0          of these the top_k largest x, ties to the lower id
//     top_p < 1          of these the fewest, largest first, whose weights reach top_p of their sum: the one
//                        that crosses stays. A weight is the integer floor(2^32 · exp(x − max x)), so sums
//                        are exact, free of order
//     then               the largest x + g(id), ties to the lower id
//
// g = −log(−log(1 − u)) is Gumbel noise: the winner is a draw from softmax(x) without any sum over the
// vocabulary (Gumbel 1954; Maddison, Tarlow, Minka 2014, arXiv:1411.0030). u is made of the 32 bits
// philox(seed, {id / 4, position, sample_index, 0})[id % 4] as gumbel_f32 says: a draw depends on the request
// and the token, never on the batch.
//
// A row with a NaN, an infinite maximum (of the logits or, where there is a draw, of x), or no finite logit
// gives −1: that request ends, its neighbours go on. Elementary functions are those of ops/scalar_math.h on
// every backend, so equal logits give equal tokens.
#pragma once

#include <cstdint>

#include "ops/context.h"

namespace nanovllm {

inline constexpr float kGreedyTemperature = 1e-5f;  // below: greedy
inline constexpr float kLeastMinP = 0x1p-126f;      // below: no filter

// What one row wants, [num_rows] arrays of plain numbers as the Batch has them.
struct SampleArgs {
  Tensor out;             // [num_rows] i32
  Tensor logits;          // [num_rows, vocab_size] f32
  Tensor temperature;     // [num_rows] f32, >= 0
  Tensor top_k;           // [num_rows] i32, 0 = off
  Tensor top_p;           // [num_rows] f32, (0, 1]
  Tensor min_p;           // [num_rows] f32, [0, 1]
  Tensor seeds;           // [num_rows, 2] i32: low and high half
  Tensor positions;       // [num_rows] i32: position of the token that is drawn, in its sequence
  Tensor sample_indices;  // [num_rows] i32: which of a request's n completions
  int64_t num_valid_tokens = 0;
};

void sample(Context& ctx, const SampleArgs& args);

}  // namespace nanovllm
