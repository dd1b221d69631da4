// What the engine did when, as a file that chrome://tracing and Perfetto show: a line each for the scheduler, the launch of steps, the
// device and the output, a bar for each step. The Trace Event Format, complete events ("ph": "X").
#pragma once

#include <filesystem>
#include <fstream>
#include <string_view>

#include "engine/sequence.h"

namespace nanovllm {

class StepTrace {
 public:
  enum class Line { kScheduler, kLaunch, kDevice, kOutput };

  // throws Error(kDevice): the file cannot be written
  explicit StepTrace(const std::filesystem::path& file);
  ~StepTrace();  // ends the file
  StepTrace(const StepTrace&) = delete;
  StepTrace& operator=(const StepTrace&) = delete;

  // step: counted from 0; num_tokens: that it computes
  void add(Line line, std::string_view name, Clock::time_point begin, Clock::time_point end, int64_t step,
           int num_tokens);

 private:
  std::ofstream file_;
  Clock::time_point start_;
};

}  // namespace nanovllm
