// How the CPU backend keeps a weight matrix [out_features = N, in_features = K].
//
// Panels of 32 outputs: [ceil(N / 32)][K][32]. One line (32 elements of one k) feeds 32 accumulators, one per
// output, so a product needs no sum across lanes: each output is one chain over k, whatever the number of
// tokens. The last panel is padded with zeros.
//
// Order in a line: f32 and f16: output 0 … 31. bf16: outputs 0, 16, 1, 17, …, 15, 31, so that the even halves
// of 32-bit words are outputs 0 … 15 and the odd halves 16 … 31: widening is one shift and one mask.
#pragma once

#include <cstddef>
#include <cstdint>

#include "ops/weight.h"

namespace nanovllm::cpu {

inline constexpr int kPanelWidth = 32;

inline int64_t num_panels(int64_t out_features) { return (out_features + kPanelWidth - 1) / kPanelWidth; }

// Place of output `lane` (0 … 31) in a line.
inline int line_position(DType dtype, int lane) {
  return dtype != DType::kBF16 ? lane : lane < 16 ? 2 * lane : 2 * (lane - 16) + 1;
}

inline size_t line_bytes(DType dtype) { return kPanelWidth * dtype_bytes(dtype); }
inline size_t panel_bytes(DType dtype, int64_t in_features) {
  return size_t(in_features) * line_bytes(dtype);
}

}  // namespace nanovllm::cpu
