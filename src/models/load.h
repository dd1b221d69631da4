// Fills a model's parameters from a checkpoint: every parameter exactly once, every tensor used or known to
// be ignorable.
#pragma once

#include "checkpoint/checkpoint.h"
#include "models/decoder.h"

namespace nanovllm {

// Judges all of the checkpoint before any of it is read: reading takes long. model: of rank 0, which has all parameters.
// where: the model folder, for errors. throws Error(kCheckpoint): tensors that are missing, surplus or of another shape,
// each named; Error(kUnsupported): they are quantized
void check_parameters(const Checkpoint& checkpoint, const std::string& where, Decoder& model);

// Reads this rank's share of each. throws Error(kOutOfMemory)
void load_parameters(Context& ctx, const Checkpoint& checkpoint, Decoder& model);

// Instead: random weights as of a model just initialised, matrices of config().dtype (bf16 where it names none) with a standard
// deviation of 0.02, norms of ones, biases too. The same for the same seed, backend and ranks; nothing is read. For benchmarks.
void load_dummy_parameters(Context& ctx, uint64_t seed, Decoder& model);

}  // namespace nanovllm
