#include "cli/progress.h"

#include "support.h"

namespace nanovllm::cli {
namespace {

TEST(Progress, CountsPromptsAndRates) {
  Progress progress(3);
  EXPECT_EQ(progress.text(), "0/3 answers");
  progress.add_step({.num_prefill_tokens = 90, .num_output_tokens = 1, .seconds = 0.5});
  progress.add_step({.num_prefill_tokens = 0, .num_output_tokens = 8, .seconds = 0.25});
  progress.add_finished();
  EXPECT_EQ(progress.text(), "1/3 answers, prefill 180 tok/s, decode 32 tok/s");
}

}  // namespace
}  // namespace nanovllm::cli
