// SamplingParams::logprobs through the front door: against the scorer, alone and in company.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <numeric>

#include "engine/scheduler.h"
#include "llm/llm.h"
#include "llm/scorer.h"
#include "ops/cuda/cuda_ops.h"
#include "support.h"

namespace nanovllm {
namespace {

class LogprobsOfAnswers : public testing::TestWithParam<const char*> {
 protected:
  void SetUp() override {
    if (GetParam() == std::string("cuda") && !cuda_unavailable().empty()) GTEST_SKIP() << cuda_unavailable();
  }

  EngineConfig config() const {
    return {.model = test::demo_model(),
            .device = GetParam(),
            .num_threads = 2,
            .max_logprobs = -1,
            .gpu_memory_utilization = 0.3};
  }
};
INSTANTIATE_TEST_SUITE_P(Devices, LogprobsOfAnswers, testing::Values("cpu", "cuda"),
                         [](const auto& info) { return info.param; });

std::vector<TokenId> random_prompt(int seed, int length) {
  std::vector<TokenId> ids;
  for (int i = 0; i < length; ++i) ids.push_back(TokenId((seed * 7919 + i * i * 31 + i) % 6000));
  return ids;
}

bool operator==(const Logprob& a, const Logprob& b) { return a.id == b.id && a.logprob == b.logprob; }
bool same(const std::vector<TokenLogprobs>& a, const std::vector<TokenLogprobs>& b) {
  return std::ranges::equal(a, b, [](const TokenLogprobs& x, const TokenLogprobs& y) {
    return x.logprob == y.logprob &&
           std::ranges::equal(x.top, y.top, [](const Logprob& p, const Logprob& q) { return p == q; });
  });
}

// Whatever filters, temperature and changed logits do, they are the model's own: those that the scorer gives for the same tokens.
// The bound is that of tests/ops/logprobs_test.cpp for logits of this size.
TEST_P(LogprobsOfAnswers, AreThoseOfTheModel) {
  LLM llm(config());
  const std::vector<TokenId> prompt = random_prompt(1, 20);
  const SamplingParams params{.temperature = 0.9f,
                              .top_k = 200,
                              .top_p = 0.9f,
                              .seed = 3,
                              .max_tokens = 20,
                              .ignore_eos = true,
                              .logprobs = 5,
                              .repetition_penalty = 1.2f,
                              .logit_bias = {{40, 3.0f}}};
  const Completion c = llm.generate(std::vector<Prompt>{Prompt(prompt)}, std::vector{params})[0];
  ASSERT_EQ(c.logprobs.size(), c.token_ids.size());
  ASSERT_EQ(c.token_ids.size(), 20u);
  std::vector<TokenId> all = prompt;
  all.insert(all.end(), c.token_ids.begin(), c.token_ids.end());
  Scorer scorer(config());
  scorer.visit_logits(all, int(prompt.size()), [&](int index, std::span<const float> logits) {
    const TokenLogprobs& got = c.logprobs[size_t(index) - prompt.size()];
    EXPECT_NEAR(got.logprob, log_probability(logits, all[size_t(index)]), 1e-5) << index;
    std::vector<TokenId> order(logits.size());
    std::iota(order.begin(), order.end(), 0);
    std::ranges::stable_sort(order,
                             [&](TokenId a, TokenId b) { return logits[size_t(a)] > logits[size_t(b)]; });
    ASSERT_EQ(got.top.size(), 5u);
    for (size_t k = 0; k < 5; ++k) {
      EXPECT_EQ(got.top[k].id, order[k]) << index;
      EXPECT_NEAR(got.top[k].logprob, log_probability(logits, order[k]), 1e-5) << index;
    }
  });
}

// Many of a batch want some, each another number of them; alone, together, in chunks, with steps ahead and without.
TEST_P(LogprobsOfAnswers, DoNotDependOnCompany) {
  std::vector<Prompt> prompts;
  std::vector<SamplingParams> params;
  for (int i = 0; i < 20; ++i) {
    prompts.emplace_back(random_prompt(i, 1 + i * 5));
    SamplingParams p{.n = i % 6 == 1 ? 3 : 1,
                     .temperature = i % 3 ? 1.0f : 0.0f,
                     .seed = uint64_t(i),
                     .max_tokens = 3 + i,
                     .ignore_eos = true};
    if (i % 4 != 3) p.logprobs = i % 5 * 4;
    if (i == 0 || i == 19) p.logprobs = -1;
    if (i == 17 || i == 18) p.frequency_penalty = 1;
    for (TokenId id = TokenId(i); id < 6000; id += 40) p.stop_token_ids.push_back(id);  // some end early
    params.push_back(p);
  }
  std::vector<Completion> want;
  for (const auto& [max_num_seqs, budget, async] :
       {std::tuple{1, 512, "off"}, {20, 512, "off"}, {20, 512, "on"}, {7, 33, "on"}}) {
    EngineConfig c = config();
    c.max_num_seqs = max_num_seqs;
    c.max_num_batched_tokens = budget;
    c.async_scheduling = async;
    LLM llm(c);
    const std::vector<Completion> got = llm.generate(prompts, params);
    if (want.empty()) want = got;
    for (size_t i = 0; i < got.size(); ++i) {
      EXPECT_EQ(got[i].token_ids, want[i].token_ids) << i;
      EXPECT_TRUE(same(got[i].logprobs, want[i].logprobs))
          << i << ": " << max_num_seqs << " at once, " << async;
    }
  }
  size_t answer = 0;
  for (size_t i = 0; i < params.size(); ++i)
    for (int n = 0; n < params[i].n; ++n, ++answer) {
      const Completion& c = want[answer];
      ASSERT_EQ(c.logprobs.size(), params[i].logprobs ? c.token_ids.size() : 0) << i;
      for (const TokenLogprobs& token : c.logprobs)
        ASSERT_EQ(token.top.size(), *params[i].logprobs < 0 ? 6144 : size_t(*params[i].logprobs));
    }
}

// All of them: a whole distribution, in order, which has the token and those that fewer would be.
TEST_P(LogprobsOfAnswers, AllAreAllTokensInOrder) {
  LLM llm(config());
  SamplingParams params{.temperature = 1, .seed = 5, .max_tokens = 6, .ignore_eos = true, .logprobs = -1};
  params.allowed_token_ids = std::vector<TokenId>{5, 6, 7, 8};  // of the answer, not of these
  const std::vector<Prompt> prompts{Prompt(random_prompt(2, 9))};
  const Completion all = llm.generate(prompts, std::vector{params})[0];
  params.logprobs = 64;
  const Completion some = llm.generate(prompts, std::vector{params})[0];
  ASSERT_EQ(all.logprobs.size(), 6u);
  for (size_t i = 0; i < 6; ++i) {
    const std::vector<Logprob>& top = all.logprobs[i].top;
    ASSERT_EQ(top.size(), 6144u);
    double sum = 0;
    std::vector<bool> seen(6144, false);
    for (size_t k = 0; k < top.size(); ++k) {
      sum += std::exp(double(top[k].logprob));
      EXPECT_FALSE(seen[size_t(top[k].id)]);
      seen[size_t(top[k].id)] = true;
      EXPECT_LE(top[k].logprob, top[k > 0 ? k - 1 : 0].logprob);
      if (top[k].id == all.token_ids[i]) {
        EXPECT_EQ(top[k].logprob, all.logprobs[i].logprob);
      }
    }
    EXPECT_NEAR(sum, 1, 1e-5);
    EXPECT_TRUE(std::equal(some.logprobs[i].top.begin(), some.logprobs[i].top.end(), top.begin(),
                           [](const Logprob& a, const Logprob& b) { return a == b; }));
  }
}

TEST_P(LogprobsOfAnswers, MoreThanTheEngineGivesAreRefused) {
  EngineConfig c = config();
  c.max_logprobs = 5;
  LLM llm(c);
  for (const int wanted : {6, -1}) {
    const Completion refused = llm.generate(std::vector<Prompt>{Prompt(random_prompt(1, 5))},
                                            std::vector<SamplingParams>{{.logprobs = wanted}})[0];
    EXPECT_EQ(refused.error, "logprobs: is " + std::to_string(wanted) + ", want 0 to max_logprobs=5");
  }
}

}  // namespace
}  // namespace nanovllm
