// What the engine counts while it runs, for whoever shows it. Plain numbers, written by the scheduler between steps;
// names and units as vLLM's metrics. Prompts, their look-ups and their time in the queue count once a request; tokens,
// ends and the other times once for each of its completions.
#pragma once

#include <array>
#include <cstdint>
#include <vector>

#include "engine/sequence.h"

namespace nanovllm {

// How many values fell below or on each bound, and above the last.
class Histogram {
 public:
  explicit Histogram(std::vector<double> upper_bounds)  // ascending
      : upper_bounds_(std::move(upper_bounds)), counts_(upper_bounds_.size() + 1) {}

  void observe(double value);

  const std::vector<double>& upper_bounds() const { return upper_bounds_; }
  const std::vector<int64_t>& counts() const { return counts_; }  // one more than bounds; not cumulative
  double sum() const { return sum_; }
  int64_t count() const { return count_; }

 private:
  std::vector<double> upper_bounds_;
  std::vector<int64_t> counts_;
  double sum_ = 0;
  int64_t count_ = 0;
};

struct EngineMetrics {
  int64_t prompt_tokens = 0;  // of requests that got their first token
  int64_t generation_tokens = 0;
  int64_t prefix_cache_queries =
      0;                          // prompt tokens that were looked up, once a request; 0 where caching is off
  int64_t prefix_cache_hits = 0;  // of these, found
  int64_t num_preemptions = 0;
  std::array<int64_t, kNumFinishReasons> finished{};  // requests by FinishReason

  // Seconds.
  Histogram time_to_first_token{{0.0005, 0.001, 0.0025, 0.005, 0.01, 0.02, 0.04, 0.06,
                                 0.08,   0.1,   0.25,   0.5,   0.75, 1,    2.5,  5,
                                 7.5,    10,    20,     40,    80,   160,  640,  2560}};
  Histogram inter_token_latency{{0.0002, 0.0005, 0.001, 0.002, 0.003, 0.005, 0.0075, 0.01, 0.025,
                                 0.05,   0.075,  0.1,   0.15,  0.2,   0.3,   0.4,    0.5,  0.75,
                                 1,      2.5,    5,     7.5,   10,    20,    40,     80}};
  Histogram e2e_request_latency{
      {0.1, 0.3, 0.5, 0.8, 1, 1.5, 2, 2.5, 5, 10, 15, 20, 30, 40, 50, 60, 120, 240, 480, 960, 1920, 7680}};
  Histogram request_queue_time{{0.001, 0.01, 0.1, 0.3, 0.5, 0.8, 1,   1.5, 2,   2.5, 5,    10,
                                15,    20,   30,  40,  50,  60,  120, 240, 480, 960, 1920, 7680}};
};

}  // namespace nanovllm
