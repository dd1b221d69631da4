// Penalties, biases, bad words, allowed tokens and min_tokens through the front door: against logits that nothing has changed.
#include <gtest/gtest.h>

#include <algorithm>
#include <bit>

#include "engine/scheduler.h"
#include "llm/llm.h"
#include "models/generation_config.h"
#include "ops/cuda/cuda_ops.h"
#include "runtime/model_runner.h"
#include "support.h"
#include "tokenizer/tokenizer.h"

namespace nanovllm {
namespace {

constexpr float kNever = -std::numeric_limits<float>::infinity();

class LogitsEditsTest : public testing::TestWithParam<const char*> {
 protected:
  void SetUp() override {
    if (GetParam() == std::string("cuda") && !cuda_unavailable().empty()) GTEST_SKIP() << cuda_unavailable();
    plain_ = make_llm();
    edited_ = make_llm();
  }

  std::unique_ptr<LLM> make_llm(int tensor_parallel_size = 1, const char* async_scheduling = "auto") const {
    return std::make_unique<LLM>(EngineConfig{.model = test::demo_model(),
                                              .device = GetParam(),
                                              .tensor_parallel_size = tensor_parallel_size,
                                              .num_threads = 1,
                                              .gpu_memory_utilization = 0.3,
                                              .async_scheduling = async_scheduling});
  }
  Completion answer(const SamplingParams& params, LLM* llm = nullptr) {
    return (llm ? *llm : *edited_).generate(std::vector<Prompt>{Prompt(kPrompt)}, std::vector{params})[0];
  }

  static constexpr const char* kPrompt = "Once upon a time";
  std::unique_ptr<LLM> plain_, edited_;
};
INSTANTIATE_TEST_SUITE_P(Devices, LogitsEditsTest, testing::Values("cpu", "cuda"),
                         [](const auto& info) { return info.param; });

// Each row of an answer with everything at once, bit for bit: what the plain model gives behind the same tokens, changed as
// docs/sampling.md says.
TEST_P(LogitsEditsTest, LogitsAreThePlainOnesChangedAsDefined) {
  const std::vector<TokenId> prompt = plain_->tokenizer()->encode(kPrompt);
  const auto vocab = size_t(plain_->model_config().vocab_size);
  SamplingParams params{.temperature = 0,
                        .max_tokens = 24,
                        .stop_token_ids = {500},
                        .min_tokens = 9,
                        .repetition_penalty = 1.4f,
                        .frequency_penalty = 0.75f,
                        .presence_penalty = 0.5f,
                        .logit_bias = {{300, 2.5f}, {prompt[0], -1.5f}}};
  params.allowed_token_ids.emplace();
  for (TokenId id = 0; id < TokenId(vocab); ++id)
    if (id % 11 != 3) params.allowed_token_ids->push_back(id);
  const std::vector<TokenId> ends = [&] {
    std::vector<TokenId> ids{500};
    for (const auto& more : {plain_->model_config().eos_token_ids, plain_->generation_config().eos_token_ids,
                             std::vector{plain_->tokenizer()->eos_token_id().value()}})
      ids.insert(ids.end(), more.begin(), more.end());
    return ids;
  }();

  edited_->add_request(Prompt(prompt), params);
  std::vector<TokenId> tokens = prompt;
  while (edited_->has_unfinished()) {
    const std::vector<RequestOutput> outputs = edited_->step();
    const std::vector<float> got = edited_->runner().logits();
    ASSERT_EQ(got.size(), vocab);

    plain_->generate(std::vector<Prompt>{Prompt(tokens)}, std::vector<SamplingParams>{{.max_tokens = 1}});
    std::vector<float> want = plain_->runner().logits();
    for (size_t id = 0; id < vocab; ++id) {
      const auto in_answer =
          std::count(tokens.begin() + std::ptrdiff_t(prompt.size()), tokens.end(), TokenId(id));
      const bool is_there = std::ranges::count(tokens, TokenId(id)) > 0;
      if (id % 11 == 3) want[id] = kNever;
      if (is_there) want[id] = want[id] < 0 ? want[id] * 1.4f : want[id] / 1.4f;
      float addend = in_answer > 0 ? -(0.75f * float(in_answer) + 0.5f) : 0.0f;
      if (const auto bias = params.logit_bias.find(TokenId(id)); bias != params.logit_bias.end())
        addend += bias->second;
      if (tokens.size() - prompt.size() < 9 && std::ranges::count(ends, TokenId(id)) > 0) addend = kNever;
      want[id] += addend;
    }
    for (size_t id = 0; id < vocab; ++id)
      ASSERT_EQ(std::bit_cast<uint32_t>(got[id]), std::bit_cast<uint32_t>(want[id]))
          << "id " << id << " behind " << tokens.size() << " tokens: " << got[id] << ", want " << want[id];
    for (const RequestOutput& output : outputs)
      tokens.insert(tokens.end(), output.token_ids.begin(), output.token_ids.end());
  }
  EXPECT_GE(tokens.size(), prompt.size() + 9);
}

TEST_P(LogitsEditsTest, NothingEndsAnAnswerBeforeMinTokens) {
  const SamplingParams base{.temperature = 0, .max_tokens = 60, .ignore_eos = true};
  const std::vector<TokenId> whole = answer(base).token_ids;
  size_t place = 4;  // of a token that was not there before
  while (std::find(whole.begin(), whole.begin() + std::ptrdiff_t(place), whole[place]) !=
         whole.begin() + std::ptrdiff_t(place))
    ++place;
  SamplingParams params = base;
  params.stop_token_ids = {whole[place]};
  for (size_t least = 0; least <= place; ++least) {  // it ends when it may
    params.min_tokens = int(least);
    EXPECT_EQ(answer(params).token_ids.size(), place + 1) << least;
  }
  for (const size_t least : {place + 1, place + 10}) {
    params.min_tokens = int(least);
    const std::vector<TokenId> got = answer(params).token_ids;
    ASSERT_GE(got.size(), least);
    EXPECT_EQ(std::count(got.begin(), got.begin() + std::ptrdiff_t(least), whole[place]), 0);
  }
}

// Texts that begin in the first min_tokens tokens do not count; the same text behind them does.
TEST_P(LogitsEditsTest, StopStringsAreLookedForBehindMinTokens) {
  const SamplingParams base{.temperature = 0, .max_tokens = 40, .ignore_eos = true};
  const Completion whole = answer(base);
  const std::string stop = " a";  // several times in the answer
  SamplingParams params = base;
  params.stop = {stop};
  params.min_tokens = 12;
  const std::string first_12 = plain_->tokenizer()->decode(
      std::vector<TokenId>(whole.token_ids.begin(), whole.token_ids.begin() + 12), SpecialText::kSkip);
  ASSERT_NE(first_12.find(stop), std::string::npos);
  const size_t place = whole.text.find(stop, first_12.size());
  ASSERT_NE(place, std::string::npos);
  const Completion got = answer(params);
  EXPECT_EQ(got.text, whole.text.substr(0, place));
  EXPECT_EQ(got.finish_reason, FinishReason::kStop);
}

TEST_P(LogitsEditsTest, BadWordsDoNotCome) {
  const SamplingParams base{.temperature = 0, .max_tokens = 40, .ignore_eos = true};
  const std::string whole = answer(base).text;
  for (const std::string word : {"Yuki", "girl", " girl", "young girl"}) {
    ASSERT_NE(whole.find(word), std::string::npos) << word;
    SamplingParams params = base;
    params.bad_words = {word};
    EXPECT_EQ(answer(params).text.find(word), std::string::npos) << word;
  }
}

// What depends on the token before is right though steps are begun ahead of it.
TEST_P(LogitsEditsTest, StepsAheadChangeNothing) {
  const auto behind = make_llm(1, "off"), ahead = make_llm(1, "on");
  const SamplingParams base{.temperature = 0, .max_tokens = 40, .ignore_eos = true};
  const std::vector<TokenId> whole = answer(base, behind.get()).token_ids;
  std::vector<SamplingParams> all(3, base);
  all[0].bad_words = {"young girl", "girl whose", " lived in"};
  all[1].frequency_penalty = 2;
  all[1].logit_bias = {{whole[3], 30.0f}};  // comes again and again, but for the penalty
  all[2].repetition_penalty = 3;
  for (const SamplingParams& params : all) {
    const Completion want = answer(params, behind.get());
    EXPECT_NE(want.token_ids, whole);
    EXPECT_EQ(answer(params, ahead.get()).token_ids, want.token_ids);
  }
}

TEST_P(LogitsEditsTest, WhereNothingIsLeftTheRequestEndsAndSaysWhy) {
  SamplingParams params{.max_tokens = 5, .stop_token_ids = {7}, .min_tokens = 3};
  params.allowed_token_ids = std::vector<TokenId>{7};
  const std::vector<Completion> got =
      edited_->generate(std::vector<Prompt>{Prompt(kPrompt), Prompt(kPrompt)},
                        std::vector<SamplingParams>{{.temperature = 0, .max_tokens = 5}, params});
  EXPECT_EQ(got[0].token_ids, answer({.temperature = 0, .max_tokens = 5}, plain_.get()).token_ids);
  EXPECT_EQ(got[1].finish_reason, FinishReason::kError);
  EXPECT_EQ(got[1].error,
            "no token is left to take: allowed_token_ids, bad_words and min_tokens exclude all");
}

TEST_P(LogitsEditsTest, AnswersAreTheSameOnSeveralRanks) {
  if (GetParam() == std::string("cuda")) GTEST_SKIP() << "one rank there";
  const SamplingParams params{.temperature = 1,
                              .seed = 5,
                              .max_tokens = 30,
                              .repetition_penalty = 1.3f,
                              .presence_penalty = 0.5f,
                              .logit_bias = {{5000, 1.0f}}};
  const auto ranks = make_llm(2);
  EXPECT_EQ(answer(params, ranks.get()).token_ids, answer(params).token_ids);
}

TEST(LogitsEditsWithoutTokenizer, BadWordsAreRefused) {
  LLM llm({.model = test::golden("qwen3-untied-f32"), .device = "cpu", .num_threads = 1});
  SamplingParams params;
  params.bad_words = {"a"};
  test::expect_error(ErrorKind::kRequest, "bad_words: has strings, and ", [&] {
    llm.add_request(Prompt(std::vector<TokenId>{5, 6}), params);
  });
}

}  // namespace
}  // namespace nanovllm
