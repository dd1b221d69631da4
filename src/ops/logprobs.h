// Natural logarithms of softmax(logits): of the likeliest tokens of some rows, and of one token of each.
//
//   logprob(id) = (logit − max) − log(S),   S = Σ e^(logit − max) over the whole row
//
// S is the sum of the integer weights of ops/draw.h at temperature 1, so that it is exact, free of order: within 2^-19 of the real
// sum. Each difference is rounded once. A row with a NaN or without a finite maximum gives NaN for all, and ids 0, 1, ….
#pragma once

#include "ops/context.h"

namespace nanovllm {

inline constexpr int kMostTopLogprobs = 64;

// num_top: at most kMostTopLogprobs and vocab_size.
struct TopLogprobsArgs {
  Tensor logits;        // [num_rows, vocab_size] f32
  Tensor rows;          // [num_wanted] i32
  Tensor norms;         // out, [num_wanted, 2] f32: max and log(S)
  Tensor top_ids;       // out, [num_wanted, num_top] i32, largest first, ties to the lower id
  Tensor top_logprobs;  // out, [num_wanted, num_top] f32
};

struct TokenLogprobsArgs {
  Tensor logits;  // [num_rows, vocab_size] f32
  Tensor rows;    // [num_wanted] i32
  Tensor norms;   // [num_wanted, 2] f32, of the logits as they were
  Tensor ids;     // [num_rows] i32; negative: NaN
  Tensor out;     // [num_wanted, 1] f32
};

void top_logprobs(Context& ctx, const TopLogprobsArgs& args);
void token_logprobs(Context& ctx, const TokenLogprobsArgs& args);

}  // namespace nanovllm
