// What requests want changed in their logits, token by token.
#include "engine/logits_edits.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <chrono>
#include <limits>
#include <map>
#include <random>
#include <set>

namespace nanovllm {
namespace {

constexpr double kNever = -std::numeric_limits<double>::infinity();

using Edits = std::vector<std::tuple<TokenId, bool, double>>;

class Edited {
 public:
  explicit Edited(const SamplingParams& params, std::vector<TokenId> prompt = {},
                  std::vector<TokenId> ends = {}, std::vector<std::vector<TokenId>> bad_words = {})
      : edits_(params, prompt, std::move(ends), std::move(bad_words), 100) {}

  Edits after(const std::vector<TokenId>& output) {
    for (; num_output_ < output.size(); ++num_output_) edits_.add_output(output[num_output_]);
    std::vector<LogitsEdit> list{{99, true, 1}};  // what was there goes
    edits_.collect(output, list);
    Edits result;
    for (const LogitsEdit& e : list) result.emplace_back(e.id, e.penalized, e.addend);
    return result;
  }
  const LogitsEdits& edits() const { return edits_; }

 private:
  LogitsEdits edits_;
  size_t num_output_ = 0;
};

TEST(LogitsEdits, AreWantedWhereAParameterIsNotNeutral) {
  EXPECT_FALSE(LogitsEdits::are_wanted({}));
  EXPECT_TRUE(LogitsEdits::are_wanted({.allowed_token_ids = std::vector<TokenId>{1}}));
  EXPECT_TRUE(LogitsEdits::are_wanted({.bad_words = {"a"}}));
  EXPECT_TRUE(LogitsEdits::are_wanted({.min_tokens = 1}));
  EXPECT_TRUE(LogitsEdits::are_wanted({.repetition_penalty = 1.1f}));
  EXPECT_TRUE(LogitsEdits::are_wanted({.frequency_penalty = -0.1f}));
  EXPECT_TRUE(LogitsEdits::are_wanted({.presence_penalty = 0.1f}));
  EXPECT_TRUE(LogitsEdits::are_wanted({.logit_bias = {{1, 0.5f}}}));
}

TEST(LogitsEdits, RepetitionCountsPromptAndAnswer) {
  Edited edited({.repetition_penalty = 1.3f}, {7, 3, 7});
  EXPECT_EQ(edited.after({}), (Edits{{3, true, 0}, {7, true, 0}}));
  EXPECT_EQ(edited.after({5, 3}), (Edits{{3, true, 0}, {5, true, 0}, {7, true, 0}}));
  EXPECT_EQ(edited.edits().repetition_penalty(), 1.3f);
}

TEST(LogitsEdits, FrequencyAndPresenceCountTheAnswerOnly) {
  Edited edited({.frequency_penalty = 0.5f, .presence_penalty = -0.25f}, {7, 3, 7});
  EXPECT_EQ(edited.after({}), (Edits{}));
  EXPECT_EQ(edited.after({7}), (Edits{{7, false, -0.25f}}));
  EXPECT_EQ(edited.after({7, 1, 7, 7}), (Edits{{1, false, -0.25f}, {7, false, -1.25f}}));
}

TEST(LogitsEdits, AllOfATokenIsOneEdit) {
  Edited edited({.stop_token_ids = {4, 9},
                 .min_tokens = 3,
                 .repetition_penalty = 2,
                 .presence_penalty = 1,
                 .logit_bias = {{9, 5}, {2, 1.5f}}},
                {2}, {4, 9, 4}, {{2}, {6}});
  EXPECT_EQ(
      edited.after({6, 8}),
      (Edits{{2, true, kNever}, {4, false, kNever}, {6, true, kNever}, {8, true, -1}, {9, false, kNever}}));
  EXPECT_EQ(edited.after({6, 8, 9}),
            (Edits{{2, true, kNever}, {6, true, kNever}, {8, true, -1}, {9, true, 4}}));
}

TEST(LogitsEdits, EndsComeFromMinTokensOn) {
  Edited edited({.min_tokens = 2}, {}, {1, 50});
  const Edits masked{{1, false, kNever}, {50, false, kNever}};
  EXPECT_EQ(edited.after({}), masked);
  EXPECT_EQ(edited.after({3}), masked);
  EXPECT_EQ(edited.after({3, 3}), (Edits{}));
}

TEST(LogitsEdits, TheLastTokenOfABadWordIsMaskedBehindTheOthers) {
  Edited edited({}, {1, 2}, {}, {{5}, {1, 2, 3}, {2, 4}, {2, 2, 2, 2}});
  const auto masked = [](std::vector<TokenId> ids) {
    Edits edits;
    for (const TokenId id : ids) edits.emplace_back(id, false, kNever);
    return edits;
  };
  EXPECT_EQ(edited.after({}), masked({5})) << "the prompt does not count";
  EXPECT_EQ(edited.after({1}), masked({5}));
  EXPECT_EQ(edited.after({1, 2}), masked({3, 4, 5}));
  EXPECT_EQ(edited.after({1, 2, 2}), masked({4, 5}));
  EXPECT_EQ(edited.after({1, 2, 2, 2}), masked({2, 4, 5}));
}

// Penalties, biases and masks, merged as a map would.
TEST(LogitsEdits, AreMergedById) {
  std::mt19937 random(2);
  for (int trial = 0; trial < 300; ++trial) {
    const auto ids = [&](size_t count) {
      std::vector<TokenId> list(count);
      for (TokenId& id : list) id = TokenId(random() % 30);
      return list;
    };
    SamplingParams params{.min_tokens = 100, .repetition_penalty = 1.5f, .presence_penalty = 0.25f};
    std::map<TokenId, std::pair<bool, double>> want;
    for (const TokenId id : ids(random() % 10)) params.logit_bias[id] = float(random() % 8) - 3;
    const std::vector<TokenId> prompt = ids(random() % 20), ends = ids(random() % 5),
                               output = ids(random() % 10);
    for (const auto& [id, bias] : params.logit_bias) want[id].second += bias;
    for (const TokenId id : ends) want[id].second = kNever;
    for (const TokenId id : prompt) want[id].first = true;
    for (const TokenId id : output) want[id].first = true;
    for (const TokenId id : std::set(output.begin(), output.end())) want[id].second -= 0.25;
    Edits edits;
    for (const auto& [id, edit] : want) edits.emplace_back(id, edit.first, edit.second);
    ASSERT_EQ(Edited(params, prompt, ends).after(output), edits) << trial;
  }
}

TEST(LogitsEdits, AreOverWhenOnlyMinTokensWereWanted) {
  const auto over = [](const SamplingParams& params, int num_tokens) {
    return Edited(params).edits().are_over(num_tokens);
  };
  EXPECT_FALSE(over({.min_tokens = 3}, 2));
  EXPECT_TRUE(over({.min_tokens = 3}, 3));
  EXPECT_FALSE(over({.min_tokens = 3, .presence_penalty = 1}, 3));
  EXPECT_FALSE(over({.min_tokens = 3, .logit_bias = {{1, 1.0f}}}, 3));
  EXPECT_FALSE(over({.allowed_token_ids = std::vector<TokenId>{1}}, 3));
}

TEST(LogitsEdits, AreMadeFastForALongPrompt) {
  std::vector<TokenId> prompt(200000);
  for (size_t i = 0; i < prompt.size(); ++i) prompt[i] = TokenId(prompt.size() - i);  // each below the last
  const auto begin = std::chrono::steady_clock::now();
  Edited({.repetition_penalty = 1.5f}, prompt);
  EXPECT_LT(std::chrono::steady_clock::now() - begin, std::chrono::seconds(2));
}

TEST(LogitsEdits, AllowedIdsAreBits) {
  EXPECT_TRUE(Edited({}).edits().allowed().empty());
  const Edited edited({.allowed_token_ids = std::vector<TokenId>{0, 31, 32, 99, 32}});
  const std::vector<uint32_t> want{0x80000001u, 1u, 0u, 8u};
  EXPECT_TRUE(std::ranges::equal(edited.edits().allowed(), want));
}

// Against counting anew for each token.
TEST(LogitsEdits, CountsAreThoseOfTheWholeAnswer) {
  std::mt19937 random(1);
  std::vector<TokenId> prompt(30), output;
  for (TokenId& id : prompt) id = TokenId(random() % 40);
  Edited edited({.repetition_penalty = 1.1f, .frequency_penalty = 0.125f, .presence_penalty = 0.5f}, prompt);
  for (int step = 0; step < 200; ++step) {
    Edits want;
    for (TokenId id = 0; id < 100; ++id) {
      const auto count = std::ranges::count(output, id);
      if (count == 0 && std::ranges::count(prompt, id) == 0) continue;
      want.emplace_back(id, true, count > 0 ? -0.5 - 0.125 * double(count) : 0.0);
    }
    ASSERT_EQ(edited.after(output), want) << step;
    output.push_back(TokenId(random() % 60));
  }
}

}  // namespace
}  // namespace nanovllm
