// The kernels compiled for avx512: see CMakeLists.txt for the flags.
#include "ops/cpu/kernels_impl.h"
#include "ops/cpu/vec_avx512.h"

namespace nanovllm::cpu {

const Kernels& kernels_avx512() {
  static constexpr Kernels table = make_kernels<avx512::Vec>("avx512");
  return table;
}

}  // namespace nanovllm::cpu
