// Products of few tokens on Hopper (linear_few.cu).
#pragma once

#include "ops/cuda/cuda_common.cuh"
#include "ops/linear.h"

namespace nanovllm::cuda {

inline constexpr int64_t kFewTokens = 64;
inline constexpr int64_t kFewRows = 65536;  // wider ones (lm_head) are long enough for the library's kernels

// false: there is none for such a product, and nothing was done.
bool linear_few(Context& ctx, const LinearArgs& args);

// Once, before the first: allows the kernels their shared memory. false: the GPU has less.
bool prepare_linear_few();

}  // namespace nanovllm::cuda
