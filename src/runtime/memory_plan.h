// Where the memory goes, by arithmetic, before the first step: weights, activations of the largest step, KV
// blocks.
#pragma once

#include <filesystem>

#include "models/decoder.h"
#include "runtime/input_buffers.h"

namespace nanovllm {

struct MemoryPlan {
  size_t weight_bytes = 0;  // parameters and the rope table
  // What every step reads of them: the parameters, but only rows of an embedding that is not the head too.
  size_t step_weight_bytes = 0;
  size_t activation_bytes = 0;  // the arena: the largest step
  size_t input_bytes = 0;       // a step's arrays (runtime/input_buffers.h, edit_buffers.h) and logprobs
  size_t kv_block_bytes = 0;    // keys and values of one block, all layers
  // Of a device's own memory, what its driver takes besides: the code of kernels, recorded steps, the rest of whole pages.
  size_t driver_bytes = 0;
  int num_blocks = 0;

  size_t besides_kv() const { return activation_bytes + input_bytes + driver_bytes; }  // and besides weights
  size_t total() const { return weight_bytes + besides_kv() + size_t(num_blocks) * kv_block_bytes; }
};

// What the driver of a device of its own memory takes besides what it is asked for.
size_t estimate_driver_bytes(const ModelConfig& config, int num_graphs);

// What a forward and the sampler of the largest step take from the arena: the forward is run with ops that do
// nothing. The model's parameters are loaded; tp: the rank that it is of.
size_t measure_activations(const OpTable& ops, const Decoder& model, TensorParallel tp,
                           const BatchLimits& limits, int num_threads);

}  // namespace nanovllm
