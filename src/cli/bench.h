// nanovllm bench: how fast a model runs here.
//
//   throughput   many requests together; by default the workload of nano-vllm's own benchmark, token for token: Python's
//                random.seed(0); 256 prompts of randint(100, 1024) ids up to 10000; then as many output lengths of
//                randint(100, 1024). 142,827 prompt and 133,966 output tokens
//   latency      one request at a time: time to the first token, and per token after it. With company: how long the answers that
//                run beside it wait for a token when its prompt is computed
//
// Requests have fixed seeds, so the same workload gives the same hash of all answers, whatever the limits, threads and ranks;
// and with the same limits the same hash of the last step's logits (with others that step may hold other rows).
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "base/token.h"
#include "engine/sampling_params.h"
#include "llm/config.h"

namespace nanovllm::cli {

struct BenchOptions {
  EngineConfig engine;
  std::string model_name;  // as it was asked for
  uint64_t seed = 0;       // of the workload
  bool json = false;
};

struct ThroughputOptions : BenchOptions {
  int num_prompts = 256;
  int min_input_len = 100, max_input_len = 1024;
  int min_output_len = 100, max_output_len = 1024;
  int max_token_id = 10000;                      // taken modulo the model's vocabulary
  SamplingParams sampling{.temperature = 0.6f};  // of all requests; seeds and lengths are the workload's
};

struct LatencyOptions : BenchOptions {
  int context = 1024;  // tokens of the prompt
  int output_len = 128;
  int runs = 3;
  int company = 0;  // other answers that run all the while
};

// What to ask for: prompts and as many output lengths.
struct Workload {
  std::vector<std::vector<TokenId>> prompts;
  std::vector<int> output_lens;
};
Workload make_workload(const ThroughputOptions& options, int64_t vocab_size);

// The exit code, both. throw Error
int run_throughput(const ThroughputOptions& options);
int run_latency(const LatencyOptions& options);

}  // namespace nanovllm::cli
