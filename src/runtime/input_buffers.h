// Batch → ModelInput and sampling arrays on the device, with one copy.
//
// All arrays of a Batch are laid end to end in one staging buffer, each at a multiple of 64 bytes, and go
// down together. There are two staging buffers, in turn: the arrays of the next step may be laid out while those of the last one
// are on their way. Sizes are fixed at start by the engine's limits, so a step allocates nothing.
#pragma once

#include <optional>
#include <type_traits>
#include <vector>

#include "engine/batch.h"
#include "models/decoder.h"
#include "ops/ops.h"
#include "ops/sample.h"

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
  const Tensor& token_rows() const { return token_rows_; }  // Batch::token_rows; undefined if it has none

 private:
  template <class T>
  Tensor put(const std::vector<T>& array, std::initializer_list<int64_t> shape,
             std::type_identity_t<std::optional<T>> padding = std::nullopt);
  void begin();
  int32_t* staging() const { return static_cast<int32_t*>(staging_[turn_].data()); }
  Tensor put_range(int64_t count);
  void put_sampling(const Batch& batch, int64_t rows);
  void send();

  const DeviceQueue& queue_;
  void* state_;
  BatchLimits limits_;
  DeviceBuffer staging_[2], buffer_;
  int turn_ = 0;
  size_t used_ = 0;  // words
  ModelInput input_;
  Tensor block_copies_, token_rows_;
  SampleArgs sample_;
};

}  // namespace nanovllm
