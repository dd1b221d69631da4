// Weights on their way to the GPU: while it copies one piece, the next is read from the checkpoint.
#pragma once

#include <cuda_runtime.h>

#include <cstddef>

#include "ops/weight.h"

namespace nanovllm::cuda {

class Uploads {
 public:
  Uploads() = default;
  ~Uploads();
  Uploads(const Uploads&) = delete;
  Uploads& operator=(const Uploads&) = delete;

  // Rows go to `to`, close together, widened to `dtype` where they are of another. On return they have been read; what the
  // stream does next finds them there.
  void store(void* to, DType dtype, const WeightRows& rows, cudaStream_t stream);

 private:
  struct Piece {
    std::byte* memory = nullptr;  // pinned
    size_t bytes = 0;
    cudaEvent_t copied = nullptr;
  };

  std::byte* begin_piece(Piece& piece, size_t bytes);

  Piece pieces_[2];
  int next_ = 0;
};

}  // namespace nanovllm::cuda
