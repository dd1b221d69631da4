// Tensor maps: where the copy engine finds the boxes of a tensor (CUDA driver API, "Tensor Map Object Management"). Opened at run
// time: the program starts without a driver.
#pragma once

#include <cuda.h>

#include <cstdint>
#include <initializer_list>
#include <optional>

#include "tensor/dtype.h"

namespace nanovllm::cuda {

bool has_tensor_maps();  // whether the driver makes them

// Of a tensor of 16-bit elements and 3 to 5 dimensions, the innermost first: its sizes, the strides of all but the innermost in
// elements (multiples of 8, as the address is of 16 bytes; they need not grow), and the sizes of a box, whose rows are 64 elements. In
// shared memory a box lies row by row, the 16-byte piece c of row r at place c ^ (r % 8). nullopt: the driver makes none of this.
std::optional<CUtensorMap> make_tensor_map(DType dtype, const void* data,
                                           std::initializer_list<int64_t> sizes,
                                           std::initializer_list<int64_t> strides,
                                           std::initializer_list<int> box);

}  // namespace nanovllm::cuda
