#include "options.h"

#include <algorithm>
#include <map>

#include "base/error.h"
#include "base/thread_pool.h"
#include "ops/cpu/kernels.h"
#include "tensor/machine.h"

namespace nanovllm::bench {

Options parse_options(const std::string& program, int argc, char** argv) {
  Options options;
  std::string runs = std::to_string(options.runs);
  const std::map<std::string, std::string*> flags{{"--commit", &options.commit},
                                                  {"--prefix", &options.prefix},
                                                  {"--suffix", &options.suffix},
                                                  {"--model-name", &options.model_name},
                                                  {"--runs", &runs}};
  std::vector<std::string> plain;
  for (int i = 1; i < argc; ++i) {
    const std::string word = argv[i];
    const auto flag = flags.find(word);
    if (flag == flags.end())
      plain.push_back(word);
    else if (i + 1 < argc)
      *flag->second = argv[++i];
  }
  options.runs = std::atoi(runs.c_str());
  if (plain.size() != 2 || options.runs < 1)
    fail(ErrorKind::kConfig, "usage: ", program, " MODEL RESULT.json --commit C [--prefix P] [--runs N] ...");
  options.model = plain[0];
  options.result = plain[1];
  options.command = "build/release/bench/" + program + " " + plain[0];
  return options;
}

void write(const Report& report, const Options& options) {
  report.write(options.result,
               machine_name(usable_processors(), cpu::runnable_kernels().sets[0]->instruction_set),
               options.commit, options.command, options.model_name);
}

std::vector<TokenId> random_prompt(int length, int64_t vocab_size, uint32_t seed) {
  std::vector<TokenId> ids;
  for (int i = 0; i < length; ++i) {
    seed = seed * 1664525 + 1013904223;
    ids.push_back(TokenId(seed % std::min<int64_t>(vocab_size, 6000)));
  }
  return ids;
}

}  // namespace nanovllm::bench
