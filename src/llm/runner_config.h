// From the user's options to what the runner needs.
#pragma once

#include "llm/config.h"
#include "runtime/worker.h"

namespace nanovllm {

// throws Error(kConfig): an option makes no sense, or asks for a longer context than the model has
RunnerConfig make_runner_config(const EngineConfig& config, const ModelConfig& model_config);

}  // namespace nanovllm
