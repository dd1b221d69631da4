// What the scheduler costs: one step of 256 running sequences, schedule and update, in which each decodes a token
// at a context of about 1,000. Nothing else runs.
//
//   bench_scheduler RESULT.json --commit C
#include <chrono>
#include <iostream>
#include <thread>

#include "base/assert.h"
#include "base/error.h"
#include "engine/scheduler.h"
#include "report.h"
#include "tensor/machine.h"

namespace nanovllm::bench {
namespace {

constexpr int kSequences = 256, kPrompt = 1000, kSteps = 1000, kBlockSize = 16;

void measure(const std::string& result, const std::string& commit) {
  Scheduler scheduler({.max_num_seqs = kSequences,
                       .max_num_batched_tokens = kSequences * kPrompt,
                       .max_model_len = 4096,
                       .num_blocks = kSequences * (kPrompt + kSteps + 100) / kBlockSize,
                       .block_size = kBlockSize},
                      {});
  for (int i = 0; i < kSequences; ++i) {
    auto sequence = std::make_unique<Sequence>();
    sequence->id = RequestId(i);
    sequence->params.max_tokens = 3000;
    for (int k = 0; k < kPrompt; ++k) sequence->token_ids.push_back(1000 * i + k);
    sequence->num_prompt_tokens = kPrompt;
    scheduler.add(std::move(sequence));
  }
  std::vector<TokenId> sampled(kSequences, 7);
  std::vector<double> schedule, update;
  for (int step = 0; step <= kSteps; ++step) {
    const auto begin = Clock::now();
    const Batch& batch = scheduler.schedule();
    const auto middle = Clock::now();
    ASSERT(batch.num_sampled() == kSequences);
    scheduler.update(sampled);
    const auto end = Clock::now();
    if (step == 0) continue;  // the prompts
    schedule.push_back(std::chrono::duration<double, std::micro>(middle - begin).count());
    update.push_back(std::chrono::duration<double, std::micro>(end - middle).count());
  }
  Report report;
  report.add("scheduler.step256", schedule, "us");
  report.add("scheduler.update256", update, "us");
  report.write(result, machine_name(int(std::thread::hardware_concurrency()), "one used"), commit,
               "build/release/bench/bench_scheduler", "");
}

}  // namespace
}  // namespace nanovllm::bench

int main(int argc, char** argv) {
  const std::vector<std::string> words(argv + 1, argv + argc);
  if (words.size() != 3 || words[1] != "--commit") {
    std::cerr << "usage: bench_scheduler RESULT.json --commit C\n";
    return 2;
  }
  return nanovllm::bench::run_benchmark("bench_scheduler",
                                        [&] { nanovllm::bench::measure(words[0], words[2]); });
}
