// A weight matrix as a backend keeps it, and how checkpoint rows get into it.
//
// Written once at load, row range by row range, straight from the mapped file (any alignment), each row
// widened or copied exactly. Embedding and LM head may be the same Weight: one storage serves both.
#pragma once

#include <cstddef>

#include "ops/context.h"
#include "tensor/tensor.h"

namespace nanovllm {

struct Weight {
  void* data = nullptr;  // the layout is the backend's own: see ops/cpu/panels.h
  DType dtype = DType::kF32;
  int64_t out_features = 0;
  int64_t in_features = 0;

  bool defined() const { return data != nullptr; }
};

// Rows of a matrix in row-major order, as a checkpoint has them.
struct WeightRows {
  const std::byte* data = nullptr;  // any alignment
  DType dtype = DType::kF32;
  int64_t num_rows = 0;
  int64_t in_features = 0;  // elements of a row
  int64_t row_stride = 0;   // elements from row to row, at least in_features
};

struct StoreWeightArgs {
  Weight weight;
  WeightRows rows;
  int64_t first_row = 0;  // rows go to [first_row, first_row + num_rows) of the weight
};

// The source's dtype must be the weight's, or the weight's must be f32 (to which every float widens exactly).
void store_weight(Context& ctx, const StoreWeightArgs& args);

// Bytes that a backend needs for a weight of this shape.
size_t weight_bytes(const OpTable& ops, DType dtype, int64_t out_features, int64_t in_features);

}  // namespace nanovllm
