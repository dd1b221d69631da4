// Hopper's matrix products of a warpgroup (128 threads) with operands in shared memory, as PTX (ISA 8.0, section on wgmma),
// and the trade of registers between warpgroups. For compute capability 9.0 with its own features (sm_90a).
//
// A product runs in the background: fence_operands(), products, commit_products(), and only after wait_for_products() may its
// registers be touched. hold() keeps the compiler from moving a use of them across that point.
#pragma once

#include "ops/cuda/bulk_copy.cuh"

#ifdef __CUDA_ARCH_FEAT_SM90_ALL

namespace nanovllm::cuda {

// Before the first product that reads registers which were written otherwise, the result's included.
__device__ inline void fence_operands() { asm volatile("wgmma.fence.sync.aligned;" ::: "memory"); }
__device__ inline void commit_products() { asm volatile("wgmma.commit_group.sync.aligned;" ::: "memory"); }
// Until at most kPending of the committed groups still run.
template <int kPending>
__device__ inline void wait_for_products() {
  asm volatile("wgmma.wait_group.sync.aligned %0;" ::"n"(kPending) : "memory");
}
template <int kCount>
__device__ inline void hold(float (&r)[kCount]) {
#pragma unroll
  for (int i = 0; i < kCount; ++i) asm volatile("" : "+f"(r[i])::"memory");
}

// What this thread wrote to shared memory, products and bulk copies see once a barrier has been passed.
__device__ inline void publish_writes() { asm volatile("fence.proxy.async.shared::cta;" ::: "memory"); }

// All warps of a warpgroup, and in all what the thread block was launched with.
template <int kRegisters>
__device__ inline void give_registers() {
  asm volatile("setmaxnreg.dec.sync.aligned.u32 %0;" ::"n"(kRegisters));
}
template <int kRegisters>
__device__ inline void take_registers() {
  asm volatile("setmaxnreg.inc.sync.aligned.u32 %0;" ::"n"(kRegisters));
}

// An operand in rows of 64 elements (128 bytes), the 16-byte piece number c of row r at place c ^ (r % 8), in memory aligned to
// 1024 bytes: groups of 8 rows follow each other. address: of the first element; 16 elements on in a row are 32 bytes on.
__device__ inline uint64_t swizzled_operand(uint32_t address) {
  constexpr uint64_t kBetweenColumns = 1, kBetweenRows = 1024 >> 4,
                     kSwizzle128 = 1;  // no columns behind the 64
  return uint64_t((address & 0x3ffff) >> 4) | kBetweenColumns << 16 | kBetweenRows << 32 | kSwizzle128 << 62;
}

// A thread's part of a result: element 4 n + i of lane 4 g + j of warp w is row 16 w + g + 8 (i / 2), column 8 n + 2 j + i % 2.
//
// d[64 x 128] (+)= a b^T. a: 64 rows of 16, b: 128 rows of 16. d is zero before the first step.
template <class T>
__device__ inline void multiply_rows(float (&d)[64], uint64_t a, uint64_t b, bool is_first);
// d[64 x 64] (+)= a b. a: 64 rows of 16, in registers like mma's; b: 16 rows of 64.
template <class T>
__device__ inline void multiply_columns(float (&d)[32], const uint32_t (&a)[4], uint64_t b, bool is_first);

// For T, which PTX calls `type`.
#define NANOVLLM_DEFINE_WGMMA(T, type)                                                                      \
  template <>                                                                                               \
  __device__ inline void multiply_rows<T>(float(&d)[64], uint64_t a, uint64_t b, bool is_first) {           \
    asm volatile(                                                                                           \
        "{ .reg .pred p; setp.eq.b32 p, %66, 0; wgmma.mma_async.sync.aligned.m64n128k16.f32." type "." type \
        " "                                                                                                 \
        "{%0,%1,%2,%3,%4,%5,%6,%7,%8,%9,%10,%11,%12,%13,%14,%15,"                                           \
        "%16,%17,%18,%19,%20,%21,%22,%23,%24,%25,%26,%27,%28,%29,%30,%31,"                                  \
        "%32,%33,%34,%35,%36,%37,%38,%39,%40,%41,%42,%43,%44,%45,%46,%47,"                                  \
        "%48,%49,%50,%51,%52,%53,%54,%55,%56,%57,%58,%59,%60,%61,%62,%63}, %64, %65, p, 1, 1, 0, 0; }"      \
        : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3]), "+f"(d[4]), "+f"(d[5]), "+f"(d[6]), "+f"(d[7]),   \
          "+f"(d[8]), "+f"(d[9]), "+f"(d[10]), "+f"(d[11]), "+f"(d[12]), "+f"(d[13]), "+f"(d[14]),          \
          "+f"(d[15]), "+f"(d[16]), "+f"(d[17]), "+f"(d[18]), "+f"(d[19]), "+f"(d[20]), "+f"(d[21]),        \
          "+f"(d[22]), "+f"(d[23]), "+f"(d[24]), "+f"(d[25]), "+f"(d[26]), "+f"(d[27]), "+f"(d[28]),        \
          "+f"(d[29]), "+f"(d[30]), "+f"(d[31]), "+f"(d[32]), "+f"(d[33]), "+f"(d[34]), "+f"(d[35]),        \
          "+f"(d[36]), "+f"(d[37]), "+f"(d[38]), "+f"(d[39]), "+f"(d[40]), "+f"(d[41]), "+f"(d[42]),        \
          "+f"(d[43]), "+f"(d[44]), "+f"(d[45]), "+f"(d[46]), "+f"(d[47]), "+f"(d[48]), "+f"(d[49]),        \
          "+f"(d[50]), "+f"(d[51]), "+f"(d[52]), "+f"(d[53]), "+f"(d[54]), "+f"(d[55]), "+f"(d[56]),        \
          "+f"(d[57]), "+f"(d[58]), "+f"(d[59]), "+f"(d[60]), "+f"(d[61]), "+f"(d[62]), "+f"(d[63])         \
        : "l"(a), "l"(b), "r"(int(is_first)));                                                              \
  }                                                                                                         \
  template <>                                                                                               \
  __device__ inline void multiply_columns<T>(float(&d)[32], const uint32_t(&a)[4], uint64_t b,              \
                                             bool is_first) {                                               \
    asm volatile("{ .reg .pred p; setp.eq.b32 p, %37, 0; wgmma.mma_async.sync.aligned.m64n64k16.f32." type  \
                 "." type                                                                                   \
                 " "                                                                                        \
                 "{%0,%1,%2,%3,%4,%5,%6,%7,%8,%9,%10,%11,%12,%13,%14,%15,"                                  \
                 "%16,%17,%18,%19,%20,%21,%22,%23,%24,%25,%26,%27,%28,%29,%30,%31}, {%32,%33,%34,%35}, "    \
                 "%36, p, 1, 1, 1; "                                                                        \
                 "}"                                                                                        \
                 : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3]), "+f"(d[4]), "+f"(d[5]), "+f"(d[6]),      \
                   "+f"(d[7]), "+f"(d[8]), "+f"(d[9]), "+f"(d[10]), "+f"(d[11]), "+f"(d[12]), "+f"(d[13]),  \
                   "+f"(d[14]), "+f"(d[15]), "+f"(d[16]), "+f"(d[17]), "+f"(d[18]), "+f"(d[19]),            \
                   "+f"(d[20]), "+f"(d[21]), "+f"(d[22]), "+f"(d[23]), "+f"(d[24]), "+f"(d[25]),            \
                   "+f"(d[26]), "+f"(d[27]), "+f"(d[28]), "+f"(d[29]), "+f"(d[30]), "+f"(d[31])             \
                 : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "l"(b), "r"(int(is_first)));                 \
  }
NANOVLLM_DEFINE_WGMMA(Bf16, "bf16")
NANOVLLM_DEFINE_WGMMA(F16, "f16")
#undef NANOVLLM_DEFINE_WGMMA

}  // namespace nanovllm::cuda

#endif
