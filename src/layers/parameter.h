// One weight of the model: declared once, with its parts in the checkpoint and its shard rule, filled exactly
// once.
//
//   qkv_proj = q_proj, k_proj, v_proj stacked, rows split over ranks
//   o_proj   = o_proj, columns split over ranks
//
// A matrix becomes a Weight in the backend's own layout, in the dtype of its parts (f32 where they differ:
// every float widens to it exactly). A vector (norm weight, bias) becomes f32. The loader walks all
// parameters, and what it cannot place, misses, or finds of another shape is an error that names tensor and
// file.
#pragma once

#include <random>
#include <span>
#include <string>
#include <vector>

#include "checkpoint/checkpoint.h"
#include "ops/weight.h"
#include "parallel/communicator.h"
#include "tensor/device.h"

namespace nanovllm {

enum class Shard {
  kReplicated,  // every rank has all of it
  kRows,        // out_features are split: each part by itself
  kPaddedRows,  // as kRows, but where they do not divide, rows of zeros at the end of the last ranks fill up
  kColumns,     // in_features are split
};

// A tensor of the checkpoint that makes up some rows of a parameter.
struct ParameterPart {
  std::string name;  // "model.layers.0.self_attn.q_proj.weight"
  int64_t rows = 0;  // of the whole tensor, over all ranks
  // In how many shards its rows are cut; 0: one a rank. Fewer than ranks: neighbours share a shard.
  int num_shards = 0;
};

class Parameter {
 public:
  // in_features of the whole matrix, over all ranks.
  // throws Error(kUnsupported), both: rows (unless padded) or inputs do not divide among the ranks
  static Parameter matrix(std::vector<ParameterPart> parts, int64_t in_features, Shard shard,
                          TensorParallel tp);
  static Parameter vector(std::vector<ParameterPart> parts, Shard shard, TensorParallel tp);

  // throws Error(kCheckpoint): a part is missing or of another shape; Error(kUnsupported): of a dtype that cannot be read
  void check(const Checkpoint& checkpoint) const;
  // Reads this rank's share, once. throws Error: as check()
  void load(Context& ctx, const Checkpoint& checkpoint);
  // Instead, once: a matrix of pieces of `table`, rows of `dtype` end to end of which any beginning will do, each from a place of
  // its own (random); a vector of ones. For what does not look at the answer. table: at least two rows
  void load_dummy(Context& ctx, DType dtype, std::span<const std::byte> table, std::mt19937_64& random);

  const Weight& weight() const { return weight_; }  // of a matrix, after load
  const Tensor& values() const { return values_; }  // of a vector, after load: [rows] f32
  const std::vector<ParameterPart>& parts() const { return parts_; }
  size_t bytes() const { return storage_.bytes(); }  // on this rank
  int64_t rows() const;                              // on this rank
  int64_t in_features() const;                       // on this rank; 1 of a vector

 private:
  Parameter(bool is_matrix, std::vector<ParameterPart> parts, int64_t in_features, Shard shard,
            TensorParallel tp);

  struct Range {
    int64_t begin;    // in the checkpoint tensor
    int64_t count;    // of the parameter's rows
    int64_t in_file;  // of these, the others are zeros
  };
  Range rows_of(const ParameterPart& part) const;  // this rank's
  const CheckpointTensor& find(const Checkpoint& checkpoint, const ParameterPart& part) const;
  void load_matrix(Context& ctx, const Checkpoint& checkpoint);
  void load_vector(Context& ctx, const Checkpoint& checkpoint);
  void store_vector(Context& ctx, const std::vector<float>& values);

  bool is_matrix_;
  std::vector<ParameterPart> parts_;
  int64_t full_in_features_;
  Shard shard_;
  TensorParallel tp_;
  DeviceBuffer storage_;
  Weight weight_;
  Tensor values_;
};

}  // namespace nanovllm
