// The workload of nano-vllm's benchmark, as CPython 3.11 draws it.
#include "cli/bench.h"

#include <gtest/gtest.h>

#include <numeric>

#include "cli/python_random.h"

namespace nanovllm::cli {
namespace {

TEST(PythonRandom, DrawsWhatPythonDraws) {
  PythonRandom zero(0);
  for (const uint32_t want : {3626764237u, 1654615998u, 3255389356u, 3823568514u})
    EXPECT_EQ(zero.next(), want);
  PythonRandom two_words((uint64_t{1} << 40) + 17);
  for (const int want : {3957, 7497, 1823, 7288}) EXPECT_EQ(two_words.randint(0, 10000), want);
}

TEST(PythonRandom, DrawsTheThousandthToo) {  // the state has been renewed by then
  PythonRandom random(1);
  std::vector<int> drawn;
  for (int i = 0; i < 1000; ++i) drawn.push_back(random.randint(0, 10000));
  EXPECT_EQ(std::vector<int>(drawn.begin(), drawn.begin() + 3), (std::vector<int>{2201, 9325, 1033}));
  EXPECT_EQ(std::vector<int>(drawn.end() - 3, drawn.end()), (std::vector<int>{3623, 9220, 2185}));
}

TEST(PythonRandom, StaysInItsRange) {
  PythonRandom random(5);
  EXPECT_EQ(random.randint(7, 7), 7);
  for (int i = 0; i < 1000; ++i) {
    const int value = random.randint(-1, 3);
    EXPECT_TRUE(value >= -1 && value <= 3);
  }
}

TEST(Throughput, TheDefaultIsNanoVllmsWorkload) {
  const Workload work = make_workload({}, 151936);
  size_t prompt_tokens = 0;
  for (const auto& prompt : work.prompts) prompt_tokens += prompt.size();
  EXPECT_EQ(work.prompts.size(), 256u);
  EXPECT_EQ(prompt_tokens, 142827u);
  EXPECT_EQ(std::accumulate(work.output_lens.begin(), work.output_lens.end(), 0), 133966);
  EXPECT_EQ(work.prompts[0].size(), 964u);
  const std::vector<TokenId> begin(work.prompts[0].begin(), work.prompts[0].begin() + 4),
      end(work.prompts[255].end() - 3, work.prompts[255].end());
  EXPECT_EQ(begin, (std::vector<TokenId>{6311, 6890, 663, 4242}));
  EXPECT_EQ(end, (std::vector<TokenId>{6642, 9046, 1958}));
  EXPECT_EQ(work.output_lens[0], 845);
  EXPECT_EQ(work.output_lens[255], 312);
}

TEST(Throughput, ASmallVocabularyGetsTheSameLengths) {
  const Workload large = make_workload({}, 151936), small = make_workload({}, 6144);
  EXPECT_EQ(small.output_lens, large.output_lens);
  for (size_t i = 0; i < large.prompts.size(); ++i) {
    ASSERT_EQ(small.prompts[i].size(), large.prompts[i].size());
    for (size_t k = 0; k < large.prompts[i].size(); ++k)
      ASSERT_EQ(small.prompts[i][k], large.prompts[i][k] % 6144);
  }
}

}  // namespace
}  // namespace nanovllm::cli
