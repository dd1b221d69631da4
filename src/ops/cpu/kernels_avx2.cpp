// The kernels compiled for avx2: see CMakeLists.txt for the flags.
#include "ops/cpu/kernels_impl.h"
#include "ops/cpu/vec_avx2.h"

namespace nanovllm::cpu {

const Kernels& kernels_avx2() {
  static constexpr Kernels table = make_kernels<avx2::Vec>("avx2");
  return table;
}

}  // namespace nanovllm::cpu
