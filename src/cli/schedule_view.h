// nanovllm inspect --schedule: how a small workload goes through the scheduler, step by step. No model computes anything: what
// is scheduled does not depend on what the tokens are.
//
// The workload: six requests that come one after the other; the first five begin with the same text, the third is asked for two
// completions, the fourth is long, the fifth is the first one again.
#pragma once

#include <filesystem>
#include <string>

#include "llm/config.h"

namespace nanovllm::cli {

struct ScheduleOptions {
  EngineConfig engine;        // its limits, each of them set
  std::filesystem::path svg;  // a picture; empty: none
};

// The exit code. throws Error
int run_schedule(const ScheduleOptions& options);

}  // namespace nanovllm::cli
