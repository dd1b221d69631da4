// Products of few tokens on Hopper (linear_few.cu).
#pragma once

#include "ops/cuda/cuda_common.cuh"
#include "ops/linear.h"

namespace nanovllm::cuda {

inline constexpr int64_t kFewTokens = 64;
// Outputs; products of more (lm_head) are long enough for the library's kernels.
inline constexpr int64_t kFewRows = 65536;

// false: there is none for such a product, and nothing was done.
bool linear_few(Context& ctx, const LinearArgs& args);

// Once, before the first: allows the kernels their shared memory. false: the GPU has less, or the driver makes no tensor maps.
bool prepare_linear_few();

}  // namespace nanovllm::cuda
