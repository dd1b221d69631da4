// What running many requests at once gives, and what the prefix cache gives, end to end through LLM.
//
//   together64, one_by_one64   64 requests of 32 prompt and 32 output tokens: all at once; each by itself
//   prefix1000.cached, .uncached   8 requests that share their first 1,000 tokens, 16 of their own and 4 of output, one
//                              after the other: seconds of all
//
// See options.h for the command line. Both ways give the same tokens, which is checked.
#include <algorithm>

#include "base/error.h"
#include "llm/llm.h"
#include "models/model_config.h"
#include "options.h"
#include "report.h"

namespace nanovllm::bench {
namespace {

using Answers = std::vector<std::vector<TokenId>>;

struct Timed {
  double seconds = 0;
  Answers answers;
};

// at_once: how many prompts one call gets.
Timed generate(LLM& llm, const std::vector<Prompt>& prompts, size_t at_once, int max_tokens) {
  const std::vector<SamplingParams> params{{.temperature = 0, .max_tokens = max_tokens, .ignore_eos = true}};
  Timed result;
  const auto start = Clock::now();
  for (size_t i = 0; i < prompts.size(); i += at_once)
    for (Completion& c : llm.generate(std::span(prompts).subspan(i, at_once), params))
      result.answers.push_back(std::move(c.token_ids));
  result.seconds = std::chrono::duration<double>(Clock::now() - start).count();
  return result;
}

double ratio(const std::vector<double>& a, const std::vector<double>& b) { return median(a) / median(b); }

void measure_batching(const Options& options, Report& report) {
  constexpr size_t kRequests = 64;
  constexpr int kPrompt = 32, kOutput = 32;
  LLM llm({.model = options.model, .max_num_seqs = kRequests, .prefix_caching = false});
  std::vector<Prompt> prompts;
  for (size_t i = 0; i < kRequests; ++i)
    prompts.emplace_back(random_prompt(kPrompt, llm.model_config().vocab_size, uint32_t(i)));
  std::vector<double> together, one_by_one;
  for (int run = 0; run < options.runs; ++run) {
    const Timed all = generate(llm, prompts, kRequests, kOutput), each = generate(llm, prompts, 1, kOutput);
    if (all.answers != each.answers) fail(ErrorKind::kDevice, "answers differ with their company");
    together.push_back(kRequests * kOutput / all.seconds);
    one_by_one.push_back(kRequests * kOutput / each.seconds);
  }
  report.add(options.row("together64"), together, "tok/s");
  report.add(options.row("one_by_one64"), one_by_one, "tok/s");
  report.add(options.row("together64.speedup"), {ratio(together, one_by_one)}, "x");
}

void measure_prefix(const Options& options, Report& report) {
  constexpr int kRequests = 8, kPrefix = 1000, kOwn = 16, kOutput = 4;
  LLM with({.model = options.model}), without({.model = options.model, .prefix_caching = false});
  std::vector<double> cached, uncached;
  for (int run = 0; run < options.runs; ++run) {
    std::vector<Prompt> prompts;
    const int64_t vocab_size = with.model_config().vocab_size;
    for (int i = 0; i < kRequests; ++i) {  // another prefix each run, which the cache does not have
      std::vector<TokenId> ids = random_prompt(kPrefix, vocab_size, uint32_t(run));
      const std::vector<TokenId> own = random_prompt(kOwn, vocab_size, uint32_t(1000 + i));
      ids.insert(ids.end(), own.begin(), own.end());
      prompts.emplace_back(ids);
    }
    const Timed a = generate(with, prompts, 1, kOutput), b = generate(without, prompts, 1, kOutput);
    if (a.answers != b.answers) fail(ErrorKind::kDevice, "answers differ with the prefix cache");
    cached.push_back(a.seconds);
    uncached.push_back(b.seconds);
  }
  report.add(options.row("prefix1000.cached"), cached, "s");
  report.add(options.row("prefix1000.uncached"), uncached, "s");
  report.add(options.row("prefix1000.speedup"), {ratio(uncached, cached)}, "x");
}

void measure(const Options& options) {
  Report report;
  measure_batching(options, report);
  measure_prefix(options, report);
  write(report, options);
}

}  // namespace
}  // namespace nanovllm::bench

int main(int argc, char** argv) {
  return nanovllm::bench::run_benchmark("bench_batching", [&] {
    nanovllm::bench::measure(nanovllm::bench::parse_options("bench_batching", argc, argv));
  });
}
