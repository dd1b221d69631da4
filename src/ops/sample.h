// From logits to one token id a row.
//
//   ids in [num_valid_tokens, vocab_size) pad the vocabulary and are never taken
//   temperature < 1e-5 or top_k = 1
//                        the largest logit, ties to the lower id
//   otherwise, with below(id) = (logit − max logit) · (1 / temperature):
//     min_p > 0          keeps below >= log(min_p): up to rounding, probabilities from min_p of the largest on
//     top_k > 0          of these the top_k largest logits, ties to the lower id
//     top_p < 1          of these the fewest, largest first, whose weights reach top_p of their sum: the one
//                        that crosses stays. A weight is the integer floor(2^32 e^below), so sums are exact, free of order
//     then               a draw from softmax(logit / temperature) of what is left, by one random number
//
// The draw inverts the distribution function, in two steps, so that one pass over the logits is enough: first a chunk of
// kDrawChunk neighbouring ids, then an id of it, each the first whose weight and those before it exceed a random part of the
// sum. Weights within a chunk, floor(2^30 e^((logit − the chunk's max) / temperature)), and of chunks (ops/draw.h) are
// integers: threads may add them in any order. Rounding down takes less than 2^-30 of its chunk's largest probability from
// any other. The random bits are philox(seed, {position, sample_index, 0, 0}), the first two words for the chunk, the others for the id: a
// draw depends on the request and the token, never on the batch.
//
// A row with a NaN or +infinity gives −1, one of −infinity alone kNoTokenLeft: that request ends, its neighbours go on. Elementary
// functions are those of ops/scalar_math.h on every backend, so equal logits give equal tokens.
#pragma once

#include <cstdint>

#include "base/token.h"
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
