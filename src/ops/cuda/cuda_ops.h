// The CUDA backend: NVIDIA GPUs of compute capability 8.0 and later, Hopper first.
//
// One table for each activation dtype T. With float32 every op computes, bit for bit, what the CPU backend computes: plain
// kernels with the same order of every sum. With bf16 and f16, products are chains of the tensor cores' m16n8k16 and
// attention follows its header's definition for tensor cores; rows do not depend on their company either way (docs/numerics.md).
#pragma once

#include <string>
#include <vector>

#include "ops/ops.h"

namespace nanovllm {

namespace cuda {

// The definition of a product with T = bf16 or f16, as plainly as it can be written: one warp per 16 x 8 outputs, mma.sync
// m16n8k16 over each segment of K from its own beginning, the last block padded with zeros. The table's linear gives its
// bits, faster; this one serves shapes that cuBLASLt does not take.
void linear_chain(Context& ctx, const LinearArgs& args);

}  // namespace cuda

// GPU 0's memory.
const Device& cuda_device();

// Host memory that GPU 0 reads and writes too.
const Device& cuda_host_device();

// T: f32, f16 or bf16. throws Error(kDevice): what cuda_unavailable() says
const OpTable& cuda_ops(DType activation_dtype);

// Why there is no GPU to run on: no driver, none found, one that is too old. Empty: GPU 0 is usable.
std::string cuda_unavailable();

// Whether attention has a kernel: any up to 256 in float32; 16, 32, 64 and 128 with tensor cores.
bool cuda_has_head_dim(DType activation_dtype, int head_dim);

// "NVIDIA H200, compute capability 9.0, CUDA 13.0": what GPU 0 is.
std::string cuda_device_name();

}  // namespace nanovllm
