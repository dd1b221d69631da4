// The draws: what they depend on, and that their frequencies are those of softmax.
#include <algorithm>
#include <numeric>
#include <random>

#include "base/random.h"
#include "ops/sample.h"
#include "ops/sample_fixture.h"
#include "ops/scalar_math.h"

namespace nanovllm {
namespace {

using namespace test;

// The value that chi-square with this many degrees of freedom exceeds once in a million: Wilson and Hilferty
// 1931, with the normal's 4.7534. The seed is fixed, so a right sampler was this unlucky with probability
// 1e-6, once, not per run.
double chi_square_limit(int degrees) {
  const double d = degrees, t = 1 - 2 / (9 * d) + 4.7534 * std::sqrt(2 / (9 * d));
  return d * t * t * t;
}

// Frequencies of draws, each at a position of its own, against the softmax of what is kept.
class SampleFrequencies : public OpTest {
 protected:
  void check_frequencies(const SampleCase& sampled, int num_draws = 100000, int num_rows = 1000);
};
INSTANTIATE_OP_TEST(SampleFrequencies);

void SampleFrequencies::check_frequencies(const SampleCase& sampled, int num_draws, int num_rows) {
  const std::vector<Kept> kept = kept_by_definition(sampled);
  std::vector<double> expected(sampled.logits.size(), 0.0), seen(sampled.logits.size(), 0.0);
  double total = 0;
  const auto weight = [&](const Kept& k) {
    return std::exp((double(k.logit) - kept[0].logit) / double(sampled.temperature));
  };
  for (const Kept& k : kept) total += weight(k);
  for (const Kept& k : kept) expected[size_t(k.id)] = num_draws * weight(k) / total;

  std::vector<SampleCase> rows(size_t(num_rows), sampled);
  for (int first = 0; first < num_draws; first += num_rows) {
    for (int r = 0; r < num_rows; ++r) rows[size_t(r)].position = first + r;
    for (int32_t id : sample_rows(ctx, rows)) ++seen[size_t(id)];
  }
  double chi_square = 0;
  for (size_t id = 0; id < seen.size(); ++id) {
    if (expected[id] == 0) {
      EXPECT_EQ(seen[id], 0) << "id " << id << " was filtered out";
      continue;
    }
    ASSERT_GE(expected[id], 5) << "chi-square needs five draws a cell";
    chi_square += (seen[id] - expected[id]) * (seen[id] - expected[id]) / expected[id];
  }
  const double limit = chi_square_limit(int(kept.size()) - 1);
  testing::Test::RecordProperty("chi_square", std::to_string(chi_square) + " of " + std::to_string(limit));
  EXPECT_LE(chi_square, limit) << kept.size() << " cells";
}

std::vector<float> some_logits(int count) {  // in no order, e^0 to e^-6
  std::vector<float> logits;
  for (int i = 0; i < count; ++i) logits.push_back(-6.0f * float(i * 7 % count) / float(count));
  return logits;
}

TEST_P(SampleFrequencies, Plain) { check_frequencies({.logits = some_logits(30), .seed = 11}); }
TEST_P(SampleFrequencies, WarmerThanOne) {
  check_frequencies({.logits = some_logits(90), .temperature = 2, .seed = 12});
}
TEST_P(SampleFrequencies, Cold) {
  check_frequencies({.logits = some_logits(10), .temperature = 0.7f, .seed = 13});
}
TEST_P(SampleFrequencies, TopK) { check_frequencies({.logits = some_logits(30), .top_k = 7, .seed = 14}); }
TEST_P(SampleFrequencies, TopP) { check_frequencies({.logits = some_logits(30), .top_p = 0.8f, .seed = 15}); }
TEST_P(SampleFrequencies, MinP) { check_frequencies({.logits = some_logits(30), .min_p = 0.1f, .seed = 18}); }
TEST_P(SampleFrequencies, AllFilters) {
  check_frequencies({.logits = some_logits(60),
                     .temperature = 1.5f,
                     .top_k = 20,
                     .top_p = 0.9f,
                     .min_p = 0.3f,  // leaves 19
                     .seed = 19});
}
TEST_P(SampleFrequencies, TopKAndTopP) {
  check_frequencies({.logits = some_logits(30), .temperature = 1.5f, .top_k = 20, .top_p = 0.9f, .seed = 16});
}
TEST_P(SampleFrequencies, Uniform) {
  check_frequencies({.logits = std::vector<float>(64, 3.5f), .seed = 17});
}

// Over five chunks, the last a short one, and one of them masked as a whole; a few ids of each have a chance.
TEST_P(SampleFrequencies, OverChunks) {
  SampleCase row{.logits = std::vector<float>(9000, -kInfinity), .seed = 20};
  for (int i = 0; i < 45; ++i)
    if (const int id = i * 199 + i % 3; id / 2048 != 2)
      row.logits[size_t(id)] = -4.0f * float(i * 7 % 45) / 45;
  row.logits[2048] = row.logits[2047] = row.logits[8999] = 0.5f;
  check_frequencies(row, 30000, 100);
  row.top_p = 0.9f;
  row.seed = 21;
  check_frequencies(row, 30000, 100);
  row.top_k = 12;
  row.temperature = 1.3f;
  check_frequencies(row, 30000, 100);
}

class SampleDraws : public OpTest {
 protected:
  std::vector<int32_t> at_positions(SampleCase row, int count = 64) {
    std::vector<SampleCase> rows;
    for (int i = 0; i < count; ++i, ++row.position) rows.push_back(row);
    return sample_rows(ctx, rows);
  }
};
INSTANTIATE_OP_TEST(SampleDraws);

// 64 draws of 90 nearly equal tokens are all equal by chance with probability 90^-64.
TEST_P(SampleDraws, DependOnSeedPositionAndSampleIndex) {
  for (const auto& [top_k, top_p] : {std::pair<int32_t, float>{0, 1.0f}, {80, 1.0f}, {0, 0.99f}}) {
    const SampleCase base{
        .logits = some_logits(90), .temperature = 100, .top_k = top_k, .top_p = top_p, .seed = 5};
    SampleCase low = base, high = base, position = base, index = base;
    low.seed = 6;
    high.seed += uint64_t{1} << 32;
    position.position = 1000;
    index.sample_index = 1;
    const std::vector<int32_t> want = at_positions(base);
    EXPECT_EQ(at_positions(base), want);
    for (const SampleCase& other : {low, high, position, index}) EXPECT_NE(at_positions(other), want);
    EXPECT_NE(at_positions(low), at_positions(high));
    SampleCase later = base;  // a shifted start sees the same draws, shifted
    later.position = 3;
    const std::vector<int32_t> shifted = at_positions(later, 20);
    EXPECT_TRUE(std::equal(shifted.begin(), shifted.end(), want.begin() + 3));
  }
}

TEST_P(SampleDraws, DoNotDependOnTheRowOrTheBatch) {
  std::vector<SampleCase> rows;
  for (int r = 0; r < 23; ++r)
    rows.push_back({.logits = some_logits(90),
                    .temperature = r % 5 ? 3.0f : 0.0f,
                    .top_k = r % 3 == 1 ? 50 : 0,
                    .top_p = r % 3 == 2 ? 0.95f : 1.0f,
                    .seed = uint64_t(r),
                    .position = r * 3});
  std::vector<int32_t> alone;
  for (const SampleCase& row : rows) alone.push_back(sample_one(ctx, row));
  EXPECT_EQ(sample_rows(ctx, rows), alone);
  for (int threads : {1, 3, 8}) {
    OpContext other(ops_named(GetParam()), threads);
    for (int shift : {0, 1, 7, 22}) {
      std::rotate(rows.begin(), rows.begin() + shift, rows.end());
      std::rotate(alone.begin(), alone.begin() + shift, alone.end());
      EXPECT_EQ(sample_rows(other.ctx, rows), alone) << threads << " threads";
    }
  }
}

// Filters that keep everything that can win change nothing: with one masked token top_k = vocab_size − 1
// leaves the others, and equal weights 2^32 of n tokens leave none out of top_p = 1 − 2^-24 while n < 2^24.
TEST_P(SampleDraws, AFilterThatKeepsEverythingChangesNothing) {
  for (int count : {16, 63, 64, 65, 130}) {
    SampleCase masked{.logits = some_logits(count), .temperature = 5};
    masked.logits[size_t(count / 2)] = -kInfinity;
    SampleCase filtered = masked;
    filtered.top_k = count - 1;
    EXPECT_EQ(at_positions(filtered, 200), at_positions(masked, 200)) << count;
    SampleCase even{.logits = std::vector<float>(size_t(count), 1.0f)};
    filtered = even;
    filtered.top_p = std::nextafter(1.0f, 0.0f);
    EXPECT_EQ(at_positions(filtered, 200), at_positions(even, 200)) << count;
  }
}

// Rows of many chunks, as a real vocabulary has.
class SampleWholeVocabularies : public OpTest {
 protected:
  void expect_draws(const std::vector<SampleCase>& rows, int64_t num_valid_tokens) {
    OpContext op(ops_named(GetParam()), 2, size_t{1} << 23);
    const std::vector<int32_t> ids = sample_rows(op.ctx, rows, num_valid_tokens);
    for (size_t r = 0; r < rows.size(); ++r) {
      SampleCase valid = rows[r];
      valid.logits.resize(size_t(num_valid_tokens));
      ASSERT_EQ(ids[r], sample_by_definition(valid))
          << rows[r].logits.size() << " ids, row " << r << " of " << rows.size() << ", temperature "
          << rows[r].temperature << ", top_k " << valid.top_k << ", top_p " << valid.top_p << ", min_p "
          << valid.min_p;
    }
  }
};
INSTANTIATE_OP_TEST(SampleWholeVocabularies);

// Flat and peaked, with ties and masks; what pads the vocabulary would win or make the row sick.
TEST_P(SampleWholeVocabularies, DrawTheDefinition) {
  std::mt19937 generator(1);
  const auto below = [&](size_t count) { return size_t(generator() % count); };
  const float temperatures[] = {1e-5f, 0.3f, 0.6f, 1, 2, 100, 1e31f, 0};
  const int32_t top_ks[] = {2, 50, 75, 76, 1000, 3000, 15000};
  const float top_ps[] =
      {std::numeric_limits<float>::denorm_min(), 1e-6f, 0.1f, 0.5f, 0.9f, 0.99f, std::nextafter(1.0f, 0.0f)},
              min_ps[] = {1e-7f, 0.01f, 0.3f, 1};
  const std::vector<std::function<void(std::vector<float>&)>> shapes = {
      [](std::vector<float>&) {},
      [](std::vector<float>& l) { std::fill(l.begin(), l.end(), 1.5f); },
      [](std::vector<float>& l) {
        for (float& v : l) v *= 0.001f;
      },
      [](std::vector<float>& l) {
        for (float& v : l) v = std::round(v);
      },
      [&](std::vector<float>& l) {
        for (float& v : l) v = below(2) ? v : -kInfinity;
      },
      [&](std::vector<float>& l) {  // all but some chunks
        for (size_t first = 0; first < l.size(); first += 2048)
          if (first / 2048 % 3 != l.size() % 3)
            std::fill_n(l.begin() + std::ptrdiff_t(first), std::min<size_t>(2048, l.size() - first),
                        -kInfinity);
        l[l.size() / 2] = 1;
      },
      [&](std::vector<float>& l) {  // one of few
        for (int i = 0; i < 20; ++i) l[below(l.size())] = 30 + float(i) * 0.1f;
      },
      [](std::vector<float>& l) { l.back() = 25; },
      [](std::vector<float>& l) {
        for (size_t i = 0; i < l.size(); ++i) l[i] = float(i) * 1e-4f;
      },
      [](std::vector<float>& l) {
        for (float& v : l) v = 1e6f + v * 10;
      }};
  struct Case {
    int num_rows;
    int64_t vocab_size, num_valid;
  };
  for (const Case& c :
       {Case{20, 2047, 2047}, Case{20, 2048, 2048}, Case{20, 2049, 2049}, Case{20, 6000, 4096},
        Case{1, 151936, 151936}, Case{9, 151936, 151669}, Case{2, 151935, 151935}, Case{40, 20001, 20000},
        Case{40, 20004, 19998}, Case{300, 3001, 2999}}) {
    std::vector<SampleCase> rows;
    for (int r = 0; r < c.num_rows; ++r) {
      SampleCase row{.temperature = temperatures[below(8)],
                     .seed = uint64_t(generator()) << 32 | generator(),
                     .position = int32_t(below(40000))};
      if (below(3) == 0) row.top_k = top_ks[below(7)];
      if (below(3) == 0) row.top_p = top_ps[below(7)];
      if (below(4) == 0) row.min_p = min_ps[below(4)];
      const Floats values = random_floats({c.num_valid}, generator(), 8);
      row.logits.assign(values.data(), values.data() + c.num_valid);
      shapes[below(shapes.size())](row.logits);
      row.logits.resize(size_t(c.vocab_size), r % 2 ? 1e9f : kNan);
      rows.push_back(std::move(row));
    }
    expect_draws(rows, c.num_valid);
  }
}

// Wherever it is, in a chunk of finite logits or one of masks.
TEST_P(SampleWholeVocabularies, ASickChunkIsASickRow) {
  OpContext op(ops_named(GetParam()), 2, size_t{1} << 23);
  std::vector<SampleCase> rows;
  std::vector<int32_t> want;
  for (const float sick : {kNan, kInfinity, -kInfinity})
    for (const size_t place : {0, 2047, 2048, 4096, 6143, 6999}) {
      SampleCase row{.logits = std::vector<float>(7000, 0.5f), .top_k = place % 2 ? 20 : 0};
      std::fill_n(row.logits.begin() + 2048, 2048, -kInfinity);
      row.logits[place] = sick;
      row.temperature = rows.size() % 3 ? 1.0f : 0.0f;
      rows.push_back(row);
      want.push_back(sick == -kInfinity ? sample_by_definition(row) : -1);
    }
  EXPECT_EQ(sample_rows(op.ctx, rows), want);
}

// Little work for tools that slow it down: several chunks, rows that lie at odd addresses, each filter; min_p leaves fewer than
// top_k wants.
TEST_P(SampleWholeVocabularies, AFewRowsOfEachKind) {
  OpContext op(ops_named(GetParam()), 2, size_t{1} << 23);
  std::vector<SampleCase> rows;
  const Floats values = random_floats({5001}, 4, 0.2f);
  for (const auto& [top_k, top_p, min_p] : {std::tuple<int32_t, float, float>{0, 1.0f, 0.0f},
                                            {2, 1.0f, 0.0f},
                                            {30, 1.0f, 0.0f},
                                            {4000, 1.0f, 0.0f},
                                            {0, 0.5f, 0.0f},
                                            {0, 1.0f, 0.9f},
                                            {4900, 0.9f, 0.99f}})
    rows.push_back(
        {.logits = {values.data(), values.data() + 5001}, .top_k = top_k, .top_p = top_p, .min_p = min_p});
  const std::vector<int32_t> ids = sample_rows(op.ctx, rows, 5000);
  for (size_t r = 0; r < rows.size(); ++r) {
    rows[r].logits.pop_back();
    EXPECT_EQ(ids[r], sample_by_definition(rows[r])) << r;
  }
}

TEST(SampleBits, AllSetsDrawTheSameIds) {
  std::vector<std::unique_ptr<OpContext>> ops;
  for (const std::string& set : backends()) ops.push_back(std::make_unique<OpContext>(ops_named(set)));
  for (int count : {1, 15, 16, 17, 63, 64, 65, 300}) {
    std::vector<SampleCase> rows;
    for (int r = 0; r < 300; ++r)
      rows.push_back({.logits = some_logits(count),
                      .temperature = 1.0f + float(r % 4),
                      .top_k = r % 3 == 1 ? 12 : 0,
                      .top_p = r % 3 == 2 ? 0.9f : 1.0f,
                      .seed = uint64_t(r) << 20,
                      .position = r});
    const std::vector<int32_t> want = sample_rows(ops.back()->ctx, rows);
    for (const auto& op : ops) EXPECT_EQ(sample_rows(op->ctx, rows), want) << op->ctx.ops.instruction_set;
  }
}

}  // namespace
}  // namespace nanovllm
