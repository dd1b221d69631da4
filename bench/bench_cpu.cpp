// Tokens per second of a model on the CPU, end to end through LLM (scheduler, model, sampler), greedy, random
// token ids.
//
//   decode        one sequence, 16 tokens of prompt, medians of the single steps
//   decode1024    the same after 1,024 tokens of prompt (where the context allows)
//   prefill512    one prompt of 512 tokens
//   batch16       16 sequences together
//
// See options.h for the command line. Each is measured several times; the file has median, lowest and highest
// (docs/results.md).
#include "llm/llm.h"
#include "models/model_config.h"
#include "ops/cpu/kernels.h"
#include "options.h"
#include "report.h"
#include "runtime/model_runner.h"
#include "tensor/machine.h"

namespace nanovllm::bench {
namespace {

// Tokens a second of each measured step.
struct Rates {
  std::vector<double> prefill, decode;
};

Rates run(LLM& llm, int num_seqs, int prompt_length, int output_length) {
  const SamplingParams params{.temperature = 0, .max_tokens = output_length, .ignore_eos = true};
  for (int i = 0; i < num_seqs; ++i)
    llm.add_request(Prompt(random_prompt(prompt_length, llm.model_config().vocab_size, uint32_t(i + 1))),
                    params);
  Rates rates;
  double prefill_tokens = 0, prefill_seconds = 0;
  while (llm.has_unfinished()) {
    llm.step();
    const StepStats& step = llm.last_step();
    if (step.num_prefill_tokens > 0) {
      prefill_tokens += step.num_prefill_tokens;
      prefill_seconds += step.seconds;
    } else if (step.num_output_tokens == num_seqs) {
      rates.decode.push_back(step.num_output_tokens / step.seconds);
    }
  }
  if (prefill_seconds > 0) rates.prefill.push_back(prefill_tokens / prefill_seconds);
  return rates;
}

void measure(const Options& options) {
  Report report;
  LLM llm({.model = options.model, .max_num_seqs = 16});
  const int threads = llm.runner().num_threads();
  report.add("cpu.read_bandwidth", read_bandwidth(threads), "GB/s");

  run(llm, 1, 16, 8);  // warm-up: pages of the cache and the arena
  report.add(options.row("decode"), run(llm, 1, 16, 64).decode, "tok/s");
  std::vector<double> prefill;
  for (int i = 0; i < options.runs; ++i) prefill.push_back(run(llm, 1, 512, 1).prefill[0]);
  report.add(options.row("prefill512"), prefill, "tok/s");
  report.add(options.row("decode1024"), run(llm, 1, 1024, 32).decode, "tok/s");
  report.add(options.row("batch16"), run(llm, 16, 16, 24).decode, "tok/s");
  report.write(options.result, machine_name(threads, cpu::runnable_kernels().sets[0]->instruction_set),
               options.commit, options.command, options.model_name);
}

}  // namespace
}  // namespace nanovllm::bench

int main(int argc, char** argv) {
  return nanovllm::bench::run_benchmark("bench_cpu", [&] {
    nanovllm::bench::measure(nanovllm::bench::parse_options("bench_cpu", argc, argv));
  });
}
