// What the ranks of one model say to each other. Each rank has its own Communicator; all call the same methods in the
// same order, as in MPI.
//
// Per step a model needs one all_reduce_sum for the embedding, two per layer, and one gather of logits.
#pragma once

#include "ops/context.h"

namespace nanovllm {

class Communicator {
 public:
  virtual ~Communicator() = default;

  virtual int rank() const = 0;
  virtual int size() const = 0;

  // values [num_tokens, hidden_size] f32, contiguous: replaced by the sum over ranks, by the tree
  // (r0 + r1) + (r2 + r3), on every rank.
  virtual void all_reduce_sum(Context& ctx, const Tensor& values) = 0;

  // part [num_rows, width] f32 of each rank, contiguous, side by side in out [num_rows, at most size() · width] of rank 0;
  // what goes beyond out is dropped (padding, at the end of the last ranks). out of other ranks is not looked at.
  virtual void gather(Context& ctx, const Tensor& out, const Tensor& part) = 0;
};

// One rank, to whom every exchange is nothing.
class SingleRank final : public Communicator {
 public:
  int rank() const override { return 0; }
  int size() const override { return 1; }
  void all_reduce_sum(Context&, const Tensor&) override {}
  void gather(Context& ctx, const Tensor& out, const Tensor& part) override;
};

// A rank's place, for those who cut weights.
struct TensorParallel {
  int rank = 0;  // tp_rank
  int size = 1;  // tp_size
};

}  // namespace nanovllm
