// Batch → ModelInput and sampling arrays on the device, with one copy.
//
// All arrays of a Batch go down together (runtime/staged_arrays.h); their sizes are fixed at start by the engine's limits.
#pragma once

#include "engine/batch.h"
#include "models/decoder.h"
#include "ops/ops.h"
#include "ops/sample.h"
#include "runtime/staged_arrays.h"

namespace nanovllm {

// The longest arrays that a step can have.
struct BatchLimits {
  int64_t max_num_tokens = 0;
  int64_t max_num_seqs = 0;
  int64_t max_num_sampled = 0;
  int64_t max_blocks = 0;  // of one sequence
  int block_size = 16;
};

class InputBuffers {
 public:
  static size_t bytes(const BatchLimits& limits);  // on the device
  // state: Context::state, whose queue copies
  InputBuffers(const OpTable& ops, void* state, const BatchLimits& limits);

  // Valid until the next upload. Between two uploads and a third the first one's step must be over.
  void upload(const Batch& batch);
  // A step of decodes as one of `size` sequences, whose arrays always lie at the same places: those that are missing write
  // nowhere, see no keys and are sampled greedily.
  void upload_decodes(const Batch& batch, int64_t size);
  const ModelInput& model_input() const { return input_; }   // without the cache, which is the runner's
  const SampleArgs& sample_args() const { return sample_; }  // without out and logits
  const Tensor& block_copies() const { return block_copies_; }
  const Tensor& logprob_rows() const { return logprob_rows_; }  // Batch::logprob_rows
  const Tensor& token_rows() const { return token_rows_; }      // Batch::token_rows; undefined if it has none

 private:
  void put_sampling(const Batch& batch, int64_t rows);

  BatchLimits limits_;
  StagedArrays arrays_;
  ModelInput input_;
  Tensor block_copies_, token_rows_, logprob_rows_;
  SampleArgs sample_;
};

}  // namespace nanovllm
