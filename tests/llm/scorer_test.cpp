#include "llm/scorer.h"

#include <cmath>
#include <nlohmann/json.hpp>
#include <numeric>

#include "base/file.h"
#include "support.h"

namespace nanovllm {
namespace {

Scorer& demo() {
  static Scorer scorer({.model = test::demo_model(), .num_threads = 1});
  return scorer;
}

// Texts that transformers scored, to six places.
TEST(Scorer, ScoresAreTheReferences) {
  const auto reference = nlohmann::json::parse(read_file(test::demo_model() / "reference.json"));
  ASSERT_FALSE(reference["scored"].empty());
  for (const auto& row : reference["scored"]) {
    const auto ids = row["ids"].get<std::vector<TokenId>>();
    const std::vector<double> scores = demo().score(ids);
    ASSERT_EQ(scores.size(), ids.size() - 1);
    for (size_t i = 1; i < ids.size(); ++i)
      EXPECT_NEAR(scores[i - 1], row["logprobs"][i].get<double>(), 1.3e-3) << i;
  }
}

std::vector<TokenId> some_ids(size_t count) {
  std::vector<TokenId> ids(count);
  for (size_t i = 0; i < count; ++i) ids[i] = TokenId(i * i * 31 % 6000);
  return ids;
}

// A step takes 64 tokens: what is scored from `first` on is the same, whatever lies before it in the step.
TEST(Scorer, FromAnyTokenOn) {
  for (const size_t length : {2, 63, 64, 65, 66, 130}) {
    const std::vector<TokenId> ids = some_ids(length);
    const std::vector<double> all = demo().score(ids);
    ASSERT_EQ(all.size(), length - 1);
    for (const size_t first : {size_t{1}, size_t{2}, length / 2, length - 1}) {
      if (first < 1) continue;
      EXPECT_EQ(demo().score(ids, int(first)),
                std::vector<double>(all.begin() + std::ptrdiff_t(first - 1), all.end()))
          << length << " from " << first;
    }
    EXPECT_TRUE(demo().score(ids, int(length)).empty());
  }
}

TEST(Scorer, RanksChangeNoBit) {
  Scorer ranks({.model = test::demo_model(), .tensor_parallel_size = 2, .num_threads = 2});
  EXPECT_EQ(ranks.score(some_ids(70)), demo().score(some_ids(70)));
}

TEST(Scorer, RefusesWhatCannotBeScored) {
  const auto expect_refused = [](const std::vector<TokenId>& ids, const std::string& text) {
    test::expect_error(ErrorKind::kRequest, text, [&] { demo().score(ids); });
  };
  expect_refused({}, "text: has 0 tokens, want 1 to 2048");
  expect_refused(some_ids(2049), "text: has 2049 tokens, want 1 to 2048");
  expect_refused({1, -1}, "text: has token id -1, want ids from 0 to 6143");
  expect_refused({1, 6144}, "text: has token id 6144");
}

// The cache is smaller than the context: a longer text has nowhere to go.
TEST(Scorer, ASmallCacheIsTheLimit) {
  Scorer small({.model = test::demo_model(), .num_threads = 1, .num_kvcache_blocks = 3});
  EXPECT_EQ(small.max_num_tokens(), 48);
  EXPECT_EQ(small.score(some_ids(48)), demo().score(some_ids(48)));
  test::expect_error(ErrorKind::kRequest, "text: has 49 tokens, want 1 to 48",
                     [&] { small.score(some_ids(49)); });
}

TEST(Scorer, ProbabilitiesAddUpToOne) {
  const std::vector<float> logits{1000, 999, 998.5f, -1e30f, 0};
  double sum = 0;
  for (TokenId i = 0; i < 5; ++i) sum += std::exp(log_probability(logits, i));
  EXPECT_NEAR(sum, 1, 1e-12);  // logarithms of the size of 1000 in double
  EXPECT_NEAR(log_probability(std::vector<float>{0, 0, 0, 0}, 2), std::log(0.25), 1e-15);
}

TEST(Scorer, KlDivergence) {
  const std::vector<float> p{std::log(0.5f), std::log(0.25f), std::log(0.25f)},
      q{std::log(0.25f), std::log(0.25f), std::log(0.5f)};
  // 0.5 ln 2 + 0 − 0.25 ln 2
  EXPECT_NEAR(kl_divergence(p, q), 0.25 * std::log(2), 1e-7);
  EXPECT_EQ(kl_divergence(p, p), 0);
  const std::vector<float> certain{0, -INFINITY, -INFINITY};
  EXPECT_NEAR(kl_divergence(certain, p), std::log(2), 1e-7);  // 0 ln 0 is 0
  EXPECT_EQ(kl_divergence(p, certain), INFINITY);
}

// Each token but the first is scored once, with as many tokens before it as the stride promises.
TEST(Scorer, WindowsScoreEachTokenOnce) {
  for (size_t num_tokens = 0; num_tokens < 40; ++num_tokens)
    for (size_t window = 2; window < 12; ++window)
      for (size_t stride = 1; stride < window; ++stride) {
        size_t next = 1;
        for (const ScoreWindow& w : score_windows(num_tokens, window, stride)) {
          EXPECT_EQ(w.first, next);
          EXPECT_LT(w.begin, w.first);
          EXPECT_LE(w.end - w.begin, window);
          EXPECT_GE(w.first - w.begin, std::min(w.first, window - stride));
          next = w.end;
        }
        EXPECT_EQ(next, std::max<size_t>(1, num_tokens)) << num_tokens << " " << window << " " << stride;
      }
}

}  // namespace
}  // namespace nanovllm
