// Copies from global to shared memory by Hopper's copy engine, and the barriers that they complete (PTX ISA 8.0, sections on
// mbarrier and cp.async.bulk). For compute capability 9.0 and later.
#pragma once

#include <cuda.h>

#include "ops/cuda/cuda_common.cuh"

namespace nanovllm::cuda {

__device__ inline uint32_t shared_address(const void* p) { return uint32_t(__cvta_generic_to_shared(p)); }

#if __CUDA_ARCH__ >= 900

__device__ inline void init_barrier(uint64_t* barrier, int num_arrivals) {
  asm volatile("mbarrier.init.shared::cta.b64 [%0], %1;" ::"r"(shared_address(barrier)), "r"(num_arrivals)
               : "memory");
}
// Makes initialised barriers visible to the copy engine; __syncthreads() must follow.
__device__ inline void publish_barriers() {
  asm volatile("fence.mbarrier_init.release.cluster;" ::: "memory");
}
// Arrives, and says how many bytes will come.
__device__ inline void expect_bytes(uint64_t* barrier, uint32_t bytes) {
  asm volatile("mbarrier.arrive.expect_tx.shared::cta.b64 _, [%0], %1;" ::"r"(shared_address(barrier)),
               "r"(bytes)
               : "memory");
}
__device__ inline void arrive(uint64_t* barrier) {
  asm volatile("mbarrier.arrive.shared::cta.b64 _, [%0];" ::"r"(shared_address(barrier)) : "memory");
}
// Until the phase of this parity is over.
__device__ inline void wait_for_phase(uint64_t* barrier, uint32_t parity) {
  uint32_t done = 0;
  while (!done)
    asm volatile(
        "{ .reg .pred p; mbarrier.try_wait.parity.shared::cta.b64 p, [%1], %2; selp.u32 %0, 1, 0, p; }"
        : "=r"(done)
        : "r"(shared_address(barrier)), "r"(parity)
        : "memory");
}
// Cached lines that nobody reads again.
__device__ inline uint64_t evict_first_policy() {
  uint64_t policy;
  asm volatile("createpolicy.fractional.L2::evict_first.b64 %0, 1.0;" : "=l"(policy));
  return policy;
}
// Both addresses and the size are multiples of 16.
__device__ inline void bulk_copy(uint32_t shared, const void* global, uint32_t bytes, uint64_t* barrier,
                                 uint64_t policy) {
  asm volatile(
      "cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes.L2::cache_hint [%0], [%1], %2, "
      "[%3], %4;" ::"r"(shared),
      "l"(global), "r"(bytes), "r"(shared_address(barrier)), "l"(policy)
      : "memory");
}
// A tensor map (PTX ISA 8.0, section on tensors) is a kernel's __grid_constant__ parameter.
__device__ inline void prefetch_map(const CUtensorMap& map) {
  asm volatile("prefetch.tensormap [%0];" ::"l"(&map) : "memory");
}
// Its box from these coordinates on, the innermost first. What lies outside of the tensor comes as zeros; the barrier hears of all
// the box's bytes.
__device__ inline void copy_box(uint32_t shared, const CUtensorMap& map, int c0, int c1, int c2,
                                uint64_t* barrier) {
  asm volatile(
      "cp.async.bulk.tensor.3d.shared::cluster.global.tile.mbarrier::complete_tx::bytes [%0], "
      "[%1, {%2, %3, %4}], [%5];" ::"r"(shared),
      "l"(&map), "r"(c0), "r"(c1), "r"(c2), "r"(shared_address(barrier))
      : "memory");
}
__device__ inline void copy_box(uint32_t shared, const CUtensorMap& map, int c0, int c1, int c2, int c3,
                                uint64_t* barrier) {
  asm volatile(
      "cp.async.bulk.tensor.4d.shared::cluster.global.tile.mbarrier::complete_tx::bytes [%0], "
      "[%1, {%2, %3, %4, %5}], [%6];" ::"r"(shared),
      "l"(&map), "r"(c0), "r"(c1), "r"(c2), "r"(c3), "r"(shared_address(barrier))
      : "memory");
}

#endif

}  // namespace nanovllm::cuda
