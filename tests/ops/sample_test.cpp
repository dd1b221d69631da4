// Which token is taken: greedy rows, filters, sick rows, and the definition over many random rows.
#include "ops/sample.h"

#include <random>
#include <set>

#include "ops/sample_fixture.h"

namespace nanovllm {
namespace {

using namespace test;

class SampleTest : public OpTest {
 protected:
  // Every id that is drawn in some of `draws` positions.
  std::set<int32_t> drawn(SampleCase row, int draws = 2000) {
    std::vector<SampleCase> rows;
    for (row.position = 0; row.position < draws; ++row.position) rows.push_back(row);
    const std::vector<int32_t> ids = sample_rows(ctx, rows);
    return {ids.begin(), ids.end()};
  }
};
INSTANTIATE_OP_TEST(SampleTest);

std::vector<float> logits_of(int64_t count, uint32_t seed, float scale) {
  const Floats values = random_floats({count}, seed, scale);
  return {values.span().begin(), values.span().end()};
}

std::vector<float> log_of(std::initializer_list<double> probabilities) {
  std::vector<float> logits;
  for (double p : probabilities) logits.push_back(float(std::log(p)));
  return logits;
}

TEST_P(SampleTest, GreedyTakesTheLargestAndTiesTheLowerId) {
  for (size_t count : {1, 2, 15, 16, 17, 63, 64, 65, 100, 769}) {
    for (size_t first = 0; first < count; first += 1 + count / 9) {
      std::vector<float> logits(count, -2.0f);
      logits[first] = -1;
      logits[count - 1] = -1;                           // a tie, in another lane as a rule
      if (first + 16 < count) logits[first + 16] = -1;  // and in the same lane
      for (float temperature : {0.0f, 1e-9f, 0.999e-5f})
        EXPECT_EQ(sample_one(ctx, {.logits = logits, .temperature = temperature}), int32_t(first)) << count;
      EXPECT_EQ(sample_one(ctx, {.logits = logits, .temperature = 0, .top_k = 3, .top_p = 0.5f}),
                int32_t(first));
    }
  }
}

TEST_P(SampleTest, ZerosOfBothSignsTie) {
  EXPECT_EQ(sample_one(ctx, {.logits = {-1, -0.0f, 0.0f}, .temperature = 0}), 1);
  EXPECT_EQ(sample_one(ctx, {.logits = {-1, 0.0f, -0.0f}, .temperature = 0}), 1);
}

// At 1e-5 there is a draw, one step below it is greedy.
TEST_P(SampleTest, TheEdgeOfGreedy) {
  const std::vector<float> logits{0, 1e-5f};
  EXPECT_EQ(drawn({.logits = logits, .temperature = 1e-5f}), (std::set<int32_t>{0, 1}));
  EXPECT_EQ(drawn({.logits = logits, .temperature = std::nextafter(1e-5f, 0.0f)}), (std::set<int32_t>{1}));
}

TEST_P(SampleTest, TinyTemperaturesTakeTheBestToken) {
  for (float temperature : {1e-5f, 2e-5f, 0.001f}) {  // logits / temperature differ by 100 and more
    for (const auto& [top_k, top_p] : {std::pair<int32_t, float>{0, 1.0f}, {3, 1.0f}, {0, 0.5f}, {3, 0.9f}})
      EXPECT_EQ(
          drawn({.logits = {1, 2, 5, 4.9f, -30}, .temperature = temperature, .top_k = top_k, .top_p = top_p},
                200),
          (std::set<int32_t>{2}));
  }
}

TEST_P(SampleTest, TopKKeepsTheLargestAndTiesTheLowerId) {
  const std::vector<float> logits{1, 3, 2, 3, 2, 2};
  const auto kept = [&](int32_t top_k) {
    return drawn({.logits = logits, .temperature = 2, .top_k = top_k});
  };
  EXPECT_EQ(kept(1), (std::set<int32_t>{1}));
  EXPECT_EQ(kept(2), (std::set<int32_t>{1, 3}));
  EXPECT_EQ(kept(3), (std::set<int32_t>{1, 2, 3}));
  EXPECT_EQ(kept(4), (std::set<int32_t>{1, 2, 3, 4}));
  EXPECT_EQ(kept(5), (std::set<int32_t>{1, 2, 3, 4, 5}));
  for (int32_t all : {0, 6, 7, 1000000}) EXPECT_EQ(kept(all), (std::set<int32_t>{0, 1, 2, 3, 4, 5}));
}

TEST_P(SampleTest, TopPKeepsTheOneThatCrosses) {
  const auto kept = [&](std::vector<float> logits, float top_p) {
    return drawn({.logits = logits, .top_p = top_p});
  };
  const std::vector<float> logits = log_of({.1, .6, .3});
  // Away from the boundary: .6 reaches .5; .6 does not reach .61; .9 does not reach .95.
  EXPECT_EQ(kept(logits, 0.5f), (std::set<int32_t>{1}));
  EXPECT_EQ(kept(logits, 0.61f), (std::set<int32_t>{1, 2}));
  EXPECT_EQ(kept(logits, 0.95f), (std::set<int32_t>{0, 1, 2}));
  for (const float least : {1e-30f, 1e-40f, std::numeric_limits<float>::denorm_min()})
    EXPECT_EQ(kept(logits, least), (std::set<int32_t>{1})) << least;  // never empty
  // On it, the rounding of .6f, .9f and of the weights decides: by the definition, in exact integers.
  for (float top_p : {0.6f, 0.9f, std::nextafter(0.6f, 0.0f), std::nextafter(0.9f, 1.0f), 0.5999995f,
                      0.6000005f, 0.8999995f, 0.9000005f}) {
    std::set<int32_t> want;
    for (const Kept& k : kept_by_definition({.logits = logits, .top_p = top_p})) want.insert(k.id);
    EXPECT_EQ(kept(logits, top_p), want) << top_p;
  }
}

// Equal logits have weights of exactly 2^32, quarters of the whole are exact: a sum that equals top_p reaches
// it.
TEST_P(SampleTest, TopPReachedExactlyIsReached) {
  const auto kept = [&](float top_p) { return drawn({.logits = {5, 5, 5, 5}, .top_p = top_p}); };
  EXPECT_EQ(kept(0.25f), (std::set<int32_t>{0}));
  EXPECT_EQ(kept(std::nextafter(0.25f, 1.0f)), (std::set<int32_t>{0, 1}));
  EXPECT_EQ(kept(0.5f), (std::set<int32_t>{0, 1}));
  EXPECT_EQ(kept(0.75f), (std::set<int32_t>{0, 1, 2}));
  EXPECT_EQ(kept(std::nextafter(0.75f, 1.0f)), (std::set<int32_t>{0, 1, 2, 3}));
  EXPECT_EQ(kept(std::nextafter(1.0f, 0.0f)), (std::set<int32_t>{0, 1, 2, 3}));
}

// top_p counts in what top_k left: .6 of .9 is .667.
TEST_P(SampleTest, TopPIsOfWhatTopKLeft) {
  const std::vector<float> logits = log_of({.6, .3, .1});
  EXPECT_EQ(drawn({.logits = logits, .top_k = 2, .top_p = 0.65f}), (std::set<int32_t>{0}));
  EXPECT_EQ(drawn({.logits = logits, .top_k = 2, .top_p = 0.68f}), (std::set<int32_t>{0, 1}));
  EXPECT_EQ(drawn({.logits = logits, .top_k = 0, .top_p = 0.65f}), (std::set<int32_t>{0, 1}));
}

// Padded ids are not there, whatever their rows hold.
TEST_P(SampleTest, IdsPastTheTokenizerAreNeverTaken) {
  for (int64_t valid : {1, 3, 16, 70, 129}) {
    for (float pad : {100.0f, kNan, kInfinity}) {
      std::vector<SampleCase> rows;
      for (const auto& [temperature, top_k, top_p] : {std::tuple<float, int32_t, float>{0, 0, 1.0f},
                                                      {2, 0, 1.0f},
                                                      {2, 5, 1.0f},
                                                      {2, 0, 0.9f},
                                                      {2, 200, 0.99f}}) {
        SampleCase row{
            .logits = logits_of(130, 3, 1), .temperature = temperature, .top_k = top_k, .top_p = top_p};
        std::fill(row.logits.begin() + valid, row.logits.end(), pad);
        for (row.position = 0; row.position < 50; ++row.position) rows.push_back(row);
      }
      const std::vector<int32_t> ids = sample_rows(ctx, rows, valid);
      for (size_t r = 0; r < rows.size(); ++r) {
        SampleCase cut = rows[r];
        cut.logits.resize(size_t(valid));
        ASSERT_EQ(ids[r], sample_by_definition(cut)) << valid << " valid, row " << r;
      }
    }
  }
}

// One sick request ends, its neighbours do not notice.
TEST_P(SampleTest, SickRowsGiveMinusOneAndNeighboursGoOn) {
  std::vector<SampleCase> rows;
  for (int r = 0; r < 8; ++r)
    rows.push_back({.logits = logits_of(100, uint32_t(r), 3),
                    .temperature = r % 4 == 0 ? 0.0f : 1.0f,
                    .top_k = r % 4 == 2 ? 10 : 0,
                    .top_p = r % 4 == 3 ? 0.9f : 1.0f,
                    .position = r});
  const std::vector<int32_t> healthy = sample_rows(ctx, rows);
  for (size_t sick = 0; sick < rows.size(); ++sick) {
    const auto expect_sick = [&](const char* what, const std::vector<float>& logits) {
      std::vector<SampleCase> some = rows;
      some[sick].logits = logits;
      std::vector<int32_t> want = healthy;
      want[sick] = -1;
      EXPECT_EQ(sample_rows(ctx, some), want) << what << " in row " << sick;
    };
    for (size_t place : {0, 15, 16, 63, 64, 95, 96, 99}) {
      for (float value : {kNan, -kNan, kInfinity}) {
        std::vector<float> logits = rows[sick].logits;
        logits[place] = value;
        expect_sick("one value", logits);
      }
    }
    expect_sick("all", std::vector<float>(100, kNan));
    expect_sick("all", std::vector<float>(100, kInfinity));
    std::vector<SampleCase> masked = rows;
    masked[sick].logits.assign(100, -kInfinity);
    std::vector<int32_t> want = healthy;
    want[sick] = kNoTokenLeft;
    EXPECT_EQ(sample_rows(ctx, masked), want) << "nothing is left in row " << sick;
  }
}

// Only differences of logits count, so none is too large to be divided; a difference past float32 is a probability of zero.
TEST_P(SampleTest, LogitsOfAnySizeAreDrawnFrom) {
  for (const auto& [top_k, top_p] : {std::pair<int32_t, float>{0, 1.0f}, {3, 1.0f}, {0, 0.5f}, {3, 0.9f}}) {
    for (float size : {3e38f, -3e38f}) {
      const SampleCase row{
          .logits = std::vector<float>(4, size), .temperature = 0.5f, .top_k = top_k, .top_p = top_p};
      EXPECT_GT(drawn(row).size(), 1u) << size << " " << top_k << " " << top_p;
      EXPECT_EQ(sample_one(ctx, row), sample_by_definition(row));
    }
    EXPECT_EQ(drawn({.logits = {-3e38f, 3e38f, 0}, .temperature = 2, .top_k = top_k, .top_p = top_p}),
              (std::set<int32_t>{1}));
  }
}

// Masked tokens are −infinity: they are never taken, and one that is left is always taken.
TEST_P(SampleTest, MinusInfinityMasks) {
  std::vector<float> logits(40, -kInfinity);
  logits[17] = -5;
  for (const auto& [temperature, top_k, top_p] : {std::tuple<float, int32_t, float>{0, 0, 1.0f},
                                                  {2, 0, 1.0f},
                                                  {2, 5, 1.0f},
                                                  {2, 0, 0.9f},
                                                  {2, 5, 0.999f}})
    EXPECT_EQ(drawn({.logits = logits, .temperature = temperature, .top_k = top_k, .top_p = top_p}, 50),
              (std::set<int32_t>{17}));
  logits[39] = -4;
  EXPECT_EQ(drawn({.logits = logits, .top_k = 30}), (std::set<int32_t>{17, 39}));
}

// Logits that the temperature makes equal: top_k = 1 looks at the logits.
TEST_P(SampleTest, TopKOneIsGreedy) {
  float less = 1.5f;
  while (less / 1.4f != std::nextafter(less, 2.0f) / 1.4f) less = std::nextafter(less, 2.0f);
  const float more = std::nextafter(less, 2.0f);
  EXPECT_EQ(drawn({.logits = {less, more, 0}, .temperature = 1.4f, .top_k = 1}, 50), (std::set<int32_t>{1}));
  EXPECT_EQ(drawn({.logits = {0, more, more}, .temperature = 1.4f, .top_k = 1, .top_p = 0.5f}, 50),
            (std::set<int32_t>{1}));
}

// Random rows with many ties and filters of every kind, against the definition.
TEST_P(SampleTest, IsItsDefinition) {
  std::mt19937 generator(1);
  for (int64_t vocab : {1, 5, 64, 65, 300, 1500}) {
    std::vector<SampleCase> rows;
    for (int r = 0; r < 60; ++r) {
      SampleCase row{.logits = logits_of(vocab, uint32_t(r), 6)};
      if (r % 3 == 0)
        for (float& v : row.logits) v = std::round(v);  // ties
      const float temperatures[] = {0.0f, 0.3f, 1.0f, 2.0f};
      const int32_t ks[] = {0, 1, 2, 40, 129, int32_t(vocab) - 1, int32_t(vocab), 100000};
      const float ps[] = {1.0f, 0.05f, 0.5f, 0.9f, 0.99f, std::nextafter(1.0f, 0.0f)};
      row.temperature = temperatures[generator() % 4];
      row.top_k = std::max(0, ks[generator() % 8]);
      row.top_p = ps[generator() % 6];
      const float least[] = {0.0f, 0.0f, 1e-40f, 1e-20f, 0.01f, 0.3f, 1.0f};
      row.min_p = least[generator() % 7];
      row.seed = uint64_t(generator()) << 32 | generator();
      row.position = int32_t(generator() % 40000);
      row.sample_index = int32_t(generator() % 3);
      rows.push_back(row);
    }
    const std::vector<int32_t> ids = sample_rows(ctx, rows);
    for (size_t r = 0; r < rows.size(); ++r)
      ASSERT_EQ(ids[r], sample_by_definition(rows[r]))
          << vocab << " ids, row " << r << ": temperature " << rows[r].temperature << " top_k "
          << rows[r].top_k << " top_p " << rows[r].top_p << " min_p " << rows[r].min_p;
  }
}

// Against the largest probability, before top_k and top_p: e^0, e^-1 and e^-2 of it are 1, .37 and .14.
TEST_P(SampleTest, MinPIsAPartOfTheLargest) {
  const std::vector<float> logits{-1, 1, 0, 1, -29};
  const auto kept = [&](SampleCase row) {
    row.logits = logits;
    return drawn(row, 400);
  };
  EXPECT_EQ(kept({.min_p = 1}), (std::set<int32_t>{1, 3}));
  EXPECT_EQ(kept({.min_p = 0.4f}), (std::set<int32_t>{1, 3}));
  EXPECT_EQ(kept({.min_p = 0.36f}), (std::set<int32_t>{1, 2, 3}));
  EXPECT_EQ(kept({.min_p = 0.13f}), (std::set<int32_t>{0, 1, 2, 3}));
  EXPECT_EQ(kept({.temperature = 2, .min_p = 0.4f}), (std::set<int32_t>{1, 2, 3})) << "of x, not of logits";
  EXPECT_EQ(kept({.top_k = 3, .min_p = 0.4f}), (std::set<int32_t>{1, 3}));
  EXPECT_EQ(kept({.top_k = 2, .min_p = 0.13f}), (std::set<int32_t>{1, 3}));
  EXPECT_EQ(kept({.top_p = 0.5f, .min_p = 0.4f}), (std::set<int32_t>{1}))
      << "top_p counts in what min_p left";
  EXPECT_EQ(kept({.top_p = 0.51f, .min_p = 0.4f}), (std::set<int32_t>{1, 3}));
}

// Rising logits make every id pass the threshold: the candidate list is cut back again and again.
TEST_P(SampleTest, TopKOfRisingAndFallingLogits) {
  std::vector<float> rising(2000), falling(2000);
  for (int i = 0; i < 2000; ++i)
    rising[size_t(i)] = float(i / 2) * 0.01f, falling[size_t(i)] = float(-i / 2) * 0.01f;
  for (int32_t top_k : {1, 2, 100, 128, 129, 999, 1000, 1001, 1999})
    for (const std::vector<float>& logits : {rising, falling})
      for (int32_t position : {0, 1, 2}) {
        const SampleCase row{.logits = logits, .temperature = 2, .top_k = top_k, .position = position};
        ASSERT_EQ(sample_one(ctx, row), sample_by_definition(row)) << top_k;
      }
}

}  // namespace
}  // namespace nanovllm
