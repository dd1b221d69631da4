#include "cli/sampling_flags.h"

#include "support.h"

namespace nanovllm::cli {
namespace {

TEST(SamplingFlags, WhatIsLeftOutComesFromTheModel) {
  const GenerationConfig model{
      .do_sample = true, .temperature = 0.7f, .top_p = 0.9f, .min_p = 0.1f, .top_k = 20};
  EXPECT_EQ(resolve({}, model).min_p, 0.1f);
  EXPECT_EQ(resolve({.min_p = 0.0f}, model).min_p, 0.0f);
  const SamplingParams params = resolve({}, model);
  EXPECT_EQ(params.temperature, 0.7f);
  EXPECT_EQ(params.top_p, 0.9f);
  EXPECT_EQ(params.top_k, 20);
  EXPECT_GT(params.max_tokens, 1 << 30);  // the rest of the context
  EXPECT_FALSE(params.seed);
}

TEST(SamplingFlags, WhatIsGivenWins) {
  const GenerationConfig model{.do_sample = true, .temperature = 0.7f, .top_p = 0.9f, .top_k = 20};
  const SamplingParams params = resolve({.temperature = 0.0f,
                                         .top_k = 3,
                                         .top_p = 0.5f,
                                         .seed = 9,
                                         .max_tokens = 5,
                                         .ignore_eos = true,
                                         .stop_token_ids = std::vector<TokenId>{4},
                                         .stop = std::vector<std::string>{"a"},
                                         .include_stop_str_in_output = true,
                                         .skip_special_tokens = false,
                                         .detokenize = false},
                                        model);
  EXPECT_EQ(params.temperature, 0.0f);
  EXPECT_EQ(params.top_k, 3);
  EXPECT_EQ(params.top_p, 0.5f);
  EXPECT_EQ(params.seed, 9u);
  EXPECT_EQ(params.max_tokens, 5);
  EXPECT_TRUE(params.ignore_eos);
  EXPECT_EQ(params.stop_token_ids, std::vector<TokenId>{4});
  EXPECT_EQ(params.stop, std::vector<std::string>{"a"});
  EXPECT_TRUE(params.include_stop_str_in_output);
  EXPECT_FALSE(params.skip_special_tokens || params.detokenize);
}

TEST(SamplingFlags, AModelThatDoesNotSampleIsGreedy) {
  EXPECT_EQ(resolve({}, {.do_sample = false, .temperature = 0.7f}).temperature, 0.0f);
  EXPECT_EQ(resolve({.temperature = 0.3f}, {.do_sample = false}).temperature, 0.3f);
  EXPECT_EQ(resolve({}, {}).temperature, 1.0f);
}

TEST(SamplingFlags, ALineOfABatchOverridesTheCommandLine) {
  const SamplingFlags flags = merged({.temperature = 0.1f}, {.temperature = 0.9f, .top_k = 4});
  EXPECT_EQ(flags.temperature, 0.1f);
  EXPECT_EQ(flags.top_k, 4);
}

}  // namespace
}  // namespace nanovllm::cli
