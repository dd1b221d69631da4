// Kernels that start early (CUDA programming guide, "Programmatic Dependent Launch"): on Hopper, thread blocks of the next
// kernel take their places while the last one runs, so that its start, and what it reads of weights, cost no time of their own.
//
// A kernel launched by launch_early() calls start_early(), or let_next_start() and wait_for_previous(), in every thread block.
// As each waits for the one before it to be complete, none completes before an older one; copies and other launches wait for
// everything. Before its wait a kernel writes nothing, and reads only what was complete at the last copy or ordinary launch on
// the stream: weights, a step's inputs, the plan of attention, keys of earlier steps. (Several may be under way at once, so
// that what a kernel further back has written is not.) What other threads of a block write is ordered by a barrier behind the
// thread that waits.
#pragma once

#include <utility>

#include "ops/cuda/cuda_common.cuh"

namespace nanovllm::cuda {

__device__ inline void let_next_start() {
#if __CUDA_ARCH__ >= 900
  asm volatile("griddepcontrol.launch_dependents;" ::: "memory");
#endif
}
__device__ inline void wait_for_previous() {
#if __CUDA_ARCH__ >= 900
  asm volatile("griddepcontrol.wait;" ::: "memory");
#endif
}
__device__ inline void start_early() {
  let_next_start();
  wait_for_previous();
}

// What goes wrong is check_launch()'s to say.
template <class... Params, class... Args>
void launch_early(const Context& ctx, void (*kernel)(Params...), dim3 grid, unsigned threads,
                  size_t shared_bytes, Args&&... args) {
  cudaLaunchAttribute early{};
  early.id = cudaLaunchAttributeProgrammaticStreamSerialization;
  early.val.programmaticStreamSerializationAllowed = 1;
  cudaLaunchConfig_t config{};
  config.gridDim = grid;
  config.blockDim = dim3(threads);
  config.dynamicSmemBytes = shared_bytes;
  config.stream = stream_of(ctx);
  config.attrs = &early;
  config.numAttrs = state_of(ctx).starts_early ? 1 : 0;
  cudaLaunchKernelEx(&config, kernel, static_cast<Params>(std::forward<Args>(args))...);
}

}  // namespace nanovllm::cuda
