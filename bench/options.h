// Command line of the end-to-end benchmarks:
//
//   PROGRAM MODEL RESULT.json --commit C [--prefix cpu] [--suffix .bf16] [--model-name "random Qwen3-0.6B bf16"] [--runs N]
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "base/token.h"
#include "report.h"

namespace nanovllm::bench {

struct Options {
  std::string model, result, commit = "0000000", command;
  std::string prefix = "cpu", suffix;  // of the rows' names
  std::string model_name;
  int runs = 5;

  std::string row(const std::string& what) const { return prefix + "." + what + suffix; }
};

// throws Error(kConfig): the usage
Options parse_options(const std::string& program, int argc, char** argv);

// The result of an end-to-end benchmark on the CPU, where the options want it.
void write(const Report& report, const Options& options);

// The same for the same seed; ids of the first 6,000, which every model has.
std::vector<TokenId> random_prompt(int length, int64_t vocab_size, uint32_t seed);

}  // namespace nanovllm::bench
