// What a Batch wants changed in logits, on the device: as runtime/input_buffers has a step's other arrays, but large (a sequence may
// have penalties for all its tokens) and seldom wanted, so that memory is taken only when the first request wants any.
#pragma once

#include "ops/edit_logits.h"
#include "runtime/input_buffers.h"
#include "runtime/staged_arrays.h"

namespace nanovllm {

class EditBuffers {
 public:
  static size_t bytes(const BatchLimits& limits, int64_t vocab_size);  // on the device
  EditBuffers(const OpTable& ops, void* state, const BatchLimits& limits, int64_t vocab_size);

  // → without the logits; valid until the next upload
  EditLogitsArgs upload(const Batch& batch);

 private:
  int64_t mask_words_;
  StagedArrays arrays_;
};

}  // namespace nanovllm
