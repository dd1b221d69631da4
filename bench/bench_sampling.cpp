// What sampling parameters add to steps of 256 sequences on the CPU, end to end through LLM: 256 requests of 16 prompt and 24
// output tokens, all at once, at temperature 0.6. Every run goes once through all kinds, so that a machine that becomes slower
// does so for each.
//
//   <kind>          tokens per second: plain, and with a filter, logprobs or a penalty in every request; mixed: a quarter of the
//                   requests plain, a quarter each with top_k 50, top_p 0.9 and both
//   <kind>.added    per cent more time than plain, by medians
//
// See options.h for the command line.
#include <algorithm>

#include "llm/llm.h"
#include "models/model_config.h"
#include "options.h"
#include "report.h"

namespace nanovllm::bench {
namespace {

struct Kind {
  const char* name;
  void (*change)(SamplingParams& params, size_t request);
};
constexpr Kind kKinds[] = {
    {"plain", [](SamplingParams&, size_t) {}},
    {"mixed",
     [](SamplingParams& p, size_t i) {
       if (i % 2) p.top_k = 50;
       if (i % 4 > 1) p.top_p = 0.9f;
     }},
    {"top_k50_top_p90", [](SamplingParams& p, size_t) { p.top_k = 50, p.top_p = 0.9f; }},
    {"top_p90", [](SamplingParams& p, size_t) { p.top_p = 0.9f; }},
    {"logprobs5", [](SamplingParams& p, size_t) { p.logprobs = 5; }},
    {"repetition_penalty", [](SamplingParams& p, size_t) { p.repetition_penalty = 1.1f; }}};

void measure(const Options& options) {
  Report report;
  constexpr size_t kRequests = 256;
  constexpr int kPrompt = 16, kOutput = 24;
  LLM llm({.model = options.model, .device = "cpu", .max_num_seqs = kRequests, .prefix_caching = false});
  std::vector<Prompt> prompts;
  for (size_t i = 0; i < kRequests; ++i)
    prompts.emplace_back(random_prompt(kPrompt, llm.model_config().vocab_size, uint32_t(i)));
  std::vector<double> rates[std::size(kKinds)];
  for (int run = 0; run < options.runs; ++run)
    for (size_t kind = 0; kind < std::size(kKinds); ++kind) {
      std::vector<SamplingParams> params(kRequests,
                                         {.temperature = 0.6f, .max_tokens = kOutput, .ignore_eos = true});
      for (size_t i = 0; i < kRequests; ++i) {
        params[i].seed = i;
        kKinds[kind].change(params[i], i);
      }
      const auto start = Clock::now();
      llm.generate(prompts, params);
      rates[kind].push_back(kRequests * kOutput /
                            std::chrono::duration<double>(Clock::now() - start).count());
    }
  for (size_t kind = 0; kind < std::size(kKinds); ++kind) {
    report.add(options.row(kKinds[kind].name), rates[kind], "tok/s");
    if (kind > 0)
      report.add(options.row(std::string(kKinds[kind].name) + ".added"),
                 {100 * (median(rates[0]) / median(rates[kind]) - 1)}, "%");
  }
  write(report, options);
}

}  // namespace
}  // namespace nanovllm::bench

int main(int argc, char** argv) {
  return nanovllm::bench::run_benchmark("bench_sampling", [&] {
    nanovllm::bench::measure(nanovllm::bench::parse_options("bench_sampling", argc, argv));
  });
}
