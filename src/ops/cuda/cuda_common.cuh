// What every kernel file needs: errors, the stream, and T in and out of float32.
//
// Compiled with -fmad=false and -ftz=true: where a product and a sum are fused is written out, and denormals of float32 are
// zeros, as on the CPU.
#pragma once

#include <cuda_bf16.h>
#include <cuda_fp16.h>
#include <cuda_runtime.h>

#include <cstdint>
#include <mutex>

#include "base/error.h"
#include "ops/context.h"
#include "ops/cuda/cublaslt.h"
#include "ops/cuda/uploads.h"

namespace nanovllm::cuda {

using Bf16 = __nv_bfloat16;
using F16 = __half;

// throws Error(kDevice): what was done, and what the driver says
void check(cudaError_t status, const char* what);

// One for the process, as CUDA's rule is: while any stream records, nobody waits for all of the device.
std::mutex& recording_mutex();
void wait_for_device(const char* what);  // throws Error(kDevice)
int count_multiprocessors();             // throws Error(kDevice)

// What one rank has on its GPU: Context::state.
struct State {
  State();
  ~State();
  State(const State&) = delete;
  State& operator=(const State&) = delete;

  cudaStream_t stream = nullptr;  // waits for no other, and none waits for it
  int num_multiprocessors = 0;
  bool starts_early = false;      // kernels can (launch.cuh): compiled for compute capability 9.0 or later
  bool has_few_products = false;  // and there is what linear_few.cu wants: shared memory, tensor maps
  std::unique_lock<std::mutex> recording;  // held while this stream records
  CublasLt lt;
  Uploads uploads;
};

inline State& state_of(const Context& ctx) { return *static_cast<State*>(ctx.state); }
inline cudaStream_t stream_of(const Context& ctx) { return state_of(ctx).stream; }
inline void check_launch(const char* op) { check(cudaGetLastError(), op); }

inline unsigned blocks_for(int64_t count, int64_t per_block) {
  return unsigned((count + per_block - 1) / per_block);
}

__device__ inline float to_float(float x) { return x; }
__device__ inline float to_float(Bf16 x) { return __bfloat162float(x); }
__device__ inline float to_float(F16 x) { return __half2float(x); }

template <class T>
__device__ inline T round_to(float x);
template <>
__device__ inline float round_to<float>(float x) {
  return x;
}
template <>
__device__ inline Bf16 round_to<Bf16>(float x) {
  return __float2bfloat16_rn(x);
}
template <>
__device__ inline F16 round_to<F16>(float x) {
  return __float2half_rn(x);
}

// A denormal of float32 becomes a zero of its sign, as in all arithmetic; a copy alone would keep it.
__device__ inline float flushed(float x) { return fabsf(x) < 0x1p-126f ? copysignf(0.0f, x) : x; }

// Calls body(T{}) with the type that dtype names.
template <class Body>
void with_dtype(DType dtype, Body&& body) {
  switch (dtype) {
    case DType::kBF16:
      return body(Bf16{});
    case DType::kF16:
      return body(F16{});
    default:
      return body(float{});
  }
}

}  // namespace nanovllm::cuda
