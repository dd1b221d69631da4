#include "ops/cuda/tensor_map.h"

#include <cuda_runtime.h>

#include <algorithm>
#include <array>

namespace nanovllm::cuda {
namespace {

using Encode = decltype(&cuTensorMapEncodeTiled);

Encode find_encode() {
  void* function = nullptr;
  cudaDriverEntryPointQueryResult result{};
  constexpr unsigned kVersion = 12000;  // that of the function's form
  if (cudaGetDriverEntryPointByVersion("cuTensorMapEncodeTiled", &function, kVersion, cudaEnableDefault,
                                       &result) == cudaSuccess &&
      result == cudaDriverEntryPointSuccess)
    return reinterpret_cast<Encode>(function);
  cudaGetLastError();  // it would be taken for the next op's
  return nullptr;
}

Encode encode() {
  static const Encode function = find_encode();
  return function;
}

}  // namespace

bool has_tensor_maps() { return encode() != nullptr; }

std::optional<CUtensorMap> make_tensor_map(DType dtype, const void* data,
                                           std::initializer_list<int64_t> sizes,
                                           std::initializer_list<int64_t> strides,
                                           std::initializer_list<int> box) {
  constexpr size_t kMaxRank = 5;
  std::array<cuuint64_t, kMaxRank> size{}, stride{};
  std::array<cuuint32_t, kMaxRank> box_size{}, steps{1, 1, 1, 1, 1};
  std::copy(sizes.begin(), sizes.end(), size.begin());
  std::transform(strides.begin(), strides.end(), stride.begin(),
                 [](int64_t elements) { return cuuint64_t(elements) * 2; });
  std::copy(box.begin(), box.end(), box_size.begin());
  CUtensorMap map;
  const CUresult status = encode()(
      &map, dtype == DType::kBF16 ? CU_TENSOR_MAP_DATA_TYPE_BFLOAT16 : CU_TENSOR_MAP_DATA_TYPE_FLOAT16,
      cuuint32_t(sizes.size()), const_cast<void*>(data), size.data(), stride.data(), box_size.data(),
      steps.data(), CU_TENSOR_MAP_INTERLEAVE_NONE, CU_TENSOR_MAP_SWIZZLE_128B,
      CU_TENSOR_MAP_L2_PROMOTION_L2_256B, CU_TENSOR_MAP_FLOAT_OOB_FILL_NONE);
  if (status != CUDA_SUCCESS) return std::nullopt;
  return map;
}

}  // namespace nanovllm::cuda
