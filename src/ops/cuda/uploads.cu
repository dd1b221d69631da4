#include <algorithm>
#include <cstring>

#include "ops/cuda/cuda_common.cuh"
#include "ops/cuda/uploads.h"

namespace nanovllm::cuda {
namespace {

constexpr size_t kPieceBytes = size_t{8} << 20;

// Rows close together, in `dtype`.
void pack_rows(std::byte* to, DType dtype, const WeightRows& rows, int64_t first, int64_t count) {
  const size_t element = dtype_bytes(rows.dtype), width = size_t(rows.in_features) * element;
  const std::byte* from = rows.data + size_t(first * rows.row_stride) * element;
  if (rows.dtype == dtype && rows.row_stride == rows.in_features) {
    std::memcpy(to, from, size_t(count) * width);
  } else if (rows.dtype == dtype) {
    for (int64_t r = 0; r < count; ++r)
      std::memcpy(to + size_t(r) * width, from + size_t(r * rows.row_stride) * element, width);
  } else {
    for (int64_t r = 0; r < count; ++r)
      for (int64_t i = 0; i < rows.in_features; ++i) {
        const float value = read_float(from, rows.dtype, r * rows.row_stride + i);
        std::memcpy(to + size_t(r * rows.in_features + i) * sizeof value, &value, sizeof value);
      }
  }
}

}  // namespace

Uploads::~Uploads() {
  for (const Piece& piece : pieces_) {
    if (piece.copied) cudaEventDestroy(piece.copied);
    cudaFreeHost(piece.memory);
  }
}

// The piece's memory, when its last copy is done with it.
std::byte* Uploads::begin_piece(Piece& piece, size_t bytes) {
  if (!piece.copied) check(cudaEventCreateWithFlags(&piece.copied, cudaEventDisableTiming), "store_weight");
  check(cudaEventSynchronize(piece.copied), "store_weight");
  if (piece.bytes < bytes) {
    cudaFreeHost(std::exchange(piece.memory, nullptr));
    piece.bytes = 0;
    void* memory = nullptr;
    check(cudaMallocHost(&memory, bytes), "pinned memory to load through");
    piece.memory = static_cast<std::byte*>(memory);
    piece.bytes = bytes;
  }
  return piece.memory;
}

void Uploads::store(void* to, DType dtype, const WeightRows& rows, cudaStream_t stream) {
  const size_t width = size_t(rows.in_features) * dtype_bytes(dtype);
  if (width == 0) return;
  const int64_t at_once = int64_t(std::max<size_t>(1, kPieceBytes / width));
  for (int64_t first = 0, count; first < rows.num_rows; first += count) {
    count = std::min(at_once, rows.num_rows - first);
    Piece& piece = pieces_[next_];
    next_ = 1 - next_;
    std::byte* memory = begin_piece(piece, std::max(kPieceBytes, size_t(count) * width));
    pack_rows(memory, dtype, rows, first, count);
    check(cudaMemcpyAsync(static_cast<std::byte*>(to) + size_t(first) * width, memory, size_t(count) * width,
                          cudaMemcpyHostToDevice, stream),
          "store_weight");
    check(cudaEventRecord(piece.copied, stream), "store_weight");
  }
}

}  // namespace nanovllm::cuda
