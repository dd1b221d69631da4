// The kernels compiled for portable: see CMakeLists.txt for the flags.
#include "ops/cpu/kernels_impl.h"
#include "ops/cpu/vec_portable.h"

namespace nanovllm::cpu {

const Kernels& kernels_portable() {
  static constexpr Kernels table = make_kernels<portable::Vec>("portable");
  return table;
}

}  // namespace nanovllm::cpu
