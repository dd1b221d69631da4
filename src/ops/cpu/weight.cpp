// Weights into panels (ops/cpu/panels.h) and rows out of them.
#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>

#include "ops/cpu/cpu_ops.h"
#include "ops/cpu/panels.h"
#include "ops/cpu/rows.h"

namespace nanovllm::cpu {
namespace {

template <class T>
T read_element(const std::byte* p, int64_t index) {
  T value;
  std::memcpy(&value, p + index * int64_t(sizeof(T)), sizeof(T));
  return value;
}

// As read_float of tensor/dtype.h, inline: the loops below are over single elements.
float read_inline(const std::byte* p, DType dtype, int64_t index) {
  switch (dtype) {
    case DType::kF16:
      return f16_to_float(read_element<uint16_t>(p, index));
    case DType::kBF16:
      return bf16_to_float(read_element<uint16_t>(p, index));
    default:
      return read_element<float>(p, index);
  }
}

// Lanes [first, last) of one panel, from rows that begin at lane `first`. Reads `last - first` rows side by
// side.
template <class T, class Read>
void fill_lanes(T* panel, DType dtype, int64_t in_features, int first, int last, Read read) {
  int position[kPanelWidth];
  for (int lane = first; lane < last; ++lane) position[lane] = line_position(dtype, lane);
  for (int64_t k = 0; k < in_features; ++k)
    for (int lane = first; lane < last; ++lane)
      panel[k * kPanelWidth + position[lane]] = read(lane - first, k);
}

}  // namespace

size_t weight_bytes(DType dtype, int64_t out_features, int64_t in_features) {
  return size_t(num_panels(out_features)) * panel_bytes(dtype, in_features);
}

void store_weight(Context& ctx, const StoreWeightArgs& a) {
  if (a.rows.num_rows == 0) return;
  const Weight& w = a.weight;
  const int64_t first_panel = a.first_row / kPanelWidth;
  const int64_t last_panel = (a.first_row + a.rows.num_rows - 1) / kPanelWidth;
  ctx.threads->run(last_panel - first_panel + 1, [&](int64_t index) {
    const int64_t panel_row = (first_panel + index) * kPanelWidth;
    const int64_t begin = std::max(a.first_row, panel_row);
    const int64_t end = std::min(a.first_row + a.rows.num_rows, panel_row + kPanelWidth);
    const int first = int(begin - panel_row), last = int(end - panel_row);
    const int64_t source_row = begin - a.first_row, stride = a.rows.row_stride;
    std::byte* panel =
        static_cast<std::byte*>(w.data) + size_t(first_panel + index) * panel_bytes(w.dtype, w.in_features);
    if (w.dtype == DType::kF32) {
      fill_lanes(reinterpret_cast<float*>(panel), w.dtype, w.in_features, first, last,
                 [&](int row, int64_t k) {
                   return read_inline(a.rows.data, a.rows.dtype, (source_row + row) * stride + k);
                 });
    } else {
      fill_lanes(reinterpret_cast<uint16_t*>(panel), w.dtype, w.in_features, first, last,
                 [&](int row, int64_t k) {
                   return read_element<uint16_t>(a.rows.data, (source_row + row) * stride + k);
                 });
    }
  });
}

namespace {

// A copy does not flush as arithmetic on the pool's threads does; a sum over ranks would.
float flush_denormal(float x) {
  return std::fabs(x) < std::numeric_limits<float>::min() ? std::copysign(0.0f, x) : x;
}

}  // namespace

void embedding(Context& ctx, const EmbeddingArgs& a) {
  const int64_t hidden_size = a.out.shape[1];
  // A row lies in a panel column by column, a cache line apart: dearer than its number of elements says.
  for_each_row(*ctx.threads, a.out.shape[0], 8 * hidden_size, [&](int64_t t) {
    float* out = a.out.ptr<float>() + t * a.out.stride[0];
    const int64_t row = a.token_ids.ptr<int32_t>()[t] - a.first_id;
    if (row < 0 || row >= a.table.out_features) {
      std::fill(out, out + hidden_size, -0.0f);  // changes no sum, not even the sign of a zero
      return;
    }
    const std::byte* panel = static_cast<const std::byte*>(a.table.data) +
                             size_t(row / kPanelWidth) * panel_bytes(a.table.dtype, hidden_size);
    const int position = line_position(a.table.dtype, int(row % kPanelWidth));
    for (int64_t k = 0; k < hidden_size; ++k)
      out[k] = flush_denormal(read_inline(panel, a.table.dtype, k * kPanelWidth + position));
  });
}

}  // namespace nanovllm::cpu
