// What requests want changed in their logits, token by token.
#include "engine/logits_edits.h"

#include <gtest/gtest.h>

#include <limits>
#include <random>

namespace nanovllm {
namespace {

constexpr float kNever = -std::numeric_limits<float>::infinity();

using Edits = std::vector<std::tuple<TokenId, bool, float>>;

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
      want.emplace_back(id, true, count > 0 ? -0.5f - 0.125f * float(count) : 0.0f);
    }
    ASSERT_EQ(edited.after(output), want) << step;
    output.push_back(TokenId(random() % 60));
  }
}

}  // namespace
}  // namespace nanovllm
