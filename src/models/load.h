// Fills a model's parameters from a checkpoint: every parameter exactly once, every tensor used or known to
// be ignorable.
#pragma once

#include "checkpoint/checkpoint.h"
#include "models/decoder.h"

namespace nanovllm {

// throws Error(kCheckpoint): tensors that are missing, surplus or of another shape, each named;
// Error(kOutOfMemory) where: the model folder, for errors.
void load_parameters(Context& ctx, const Checkpoint& checkpoint, const std::string& where, Decoder& model);

}  // namespace nanovllm
