#include "ops/rms_norm.h"

#include "ops/ops_fixture.h"

namespace nanovllm {
namespace {

using namespace test;

class RmsNormTest : public OpTest {};
INSTANTIATE_OP_TEST(RmsNormTest);

// Relative error of a row in units of u: the sum of n squares is sixteen chains of ceil(n / 16) fused
// multiply-adds, then four additions, all terms positive; the division by n and the addition of eps round
// once each. The square root halves what came before and rounds once, so does the reciprocal. Two products
// follow. An error of e u is at most e units in the last place. (Terms of second order: below 0.001 of it.)
double ulps_of(int64_t n) { return 1.001 * ((double((n + 15) / 16) + 4 + 2) / 2 + 2 + 2); }

struct Case {
  int64_t num_tokens, hidden_size;
  float scale, eps;
};
// Model sizes, sizes that no vector width divides, one element, and values whose squares are near the limits.
constexpr Case kCases[] = {{1, 1024, 1, 1e-6f},    {3, 769, 1, 1e-6f},      {2, 5125, 1e-4f, 1e-5f},
                           {4, 1, 1, 1e-6f},       {2, 15, 1, 1e-6f},       {2, 16, 1e3f, 1e-6f},
                           {2, 17, 1, 1e-6f},      {2, 31, 1e-3f, 1e-6f},   {2, 33, 1, 1e-6f},
                           {2, 128, 1e15f, 1e-6f}, {2, 128, 1e-15f, 1e-6f}, {2, 77, 1e-30f, 1e-6f},
                           {70, 300, 1, 1e-5f},    {1, 64, 1e-3f, 1.0f},    {2, 48, 1e-6f, 1e-12f}};

TEST_P(RmsNormTest, IsItsDefinition) {
  for (const Case& c : kCases) {
    WorstError worst("ulps_n" + std::to_string(c.hidden_size), ulps_of(c.hidden_size));
    const Floats x = random_floats({c.num_tokens, c.hidden_size}, 1, c.scale);
    const Floats weight = random_floats({c.hidden_size}, 2, 2);
    const Floats out = unwritten({c.num_tokens, c.hidden_size});
    rms_norm(ctx, {.out = out, .x = x, .weight = weight, .eps = c.eps});
    for (int64_t t = 0; t < c.num_tokens; ++t)
      expect_ulps(worst, out.row(t), rms_norm_reference(doubles(x.row(t)), doubles(weight.span()), c.eps));
  }
}

TEST_P(RmsNormTest, AZeroRowGivesZeros) {
  const Floats x({2, 33}), weight = random_floats({33}, 1), out = unwritten({2, 33});
  rms_norm(ctx, {.out = out, .x = x, .weight = weight});
  for (float v : out.span()) ASSERT_EQ(v, 0.0f);
}

TEST_P(RmsNormTest, NoRows) {
  const Floats x({0, 33}), weight = random_floats({33}, 1), out({0, 33});
  rms_norm(ctx, {.out = out, .x = x, .weight = weight});
}

TEST_P(RmsNormTest, ANanStaysInItsRow) {
  Floats x = random_floats({3, 40}, 1);
  const Floats weight = random_floats({40}, 2), want = unwritten({3, 40}), out = unwritten({3, 40});
  rms_norm(ctx, {.out = want, .x = x, .weight = weight});
  x[40 + 35] = kNan;
  rms_norm(ctx, {.out = out, .x = x, .weight = weight});
  EXPECT_TRUE(same_bits(out.row(0), want.row(0)));
  EXPECT_TRUE(same_bits(out.row(2), want.row(2)));
  for (float v : out.row(1)) EXPECT_TRUE(std::isnan(v));
}

TEST_P(RmsNormTest, InPlace) {
  Floats x = random_floats({5, 99}, 3);
  const Floats weight = random_floats({99}, 4), out = unwritten({5, 99});
  rms_norm(ctx, {.out = out, .x = x, .weight = weight});
  rms_norm(ctx, {.out = x, .x = x, .weight = weight});
  EXPECT_TRUE(same_bits(x.span(), out.span()));
}

// q and k norm: heads of a packed qkv row, in place, v and the other heads untouched.
TEST_P(RmsNormTest, HeadsOfPackedRows) {
  constexpr int64_t kTokens = 37, kHeads = 7, kHeadDim = 24;
  Floats qkv = random_floats({kTokens, kHeads * kHeadDim}, 5);
  const Floats before = qkv, weight = random_floats({kHeadDim}, 6);
  const Tensor normed = heads(qkv, 1, 4, kHeadDim);
  rms_norm(ctx, {.out = normed, .x = normed, .weight = weight});
  WorstError worst("ulps", ulps_of(kHeadDim));
  for (int64_t t = 0; t < kTokens; ++t) {
    for (int64_t h = 0; h < kHeads; ++h) {
      const auto got = qkv.row(t).subspan(size_t(h * kHeadDim), kHeadDim);
      const auto x = before.row(t).subspan(size_t(h * kHeadDim), kHeadDim);
      if (h >= 1 && h < 5)
        expect_ulps(worst, got, rms_norm_reference(doubles(x), doubles(weight.span()), 1e-6f));
      else
        ASSERT_TRUE(same_bits(got, x)) << "head " << h;
    }
  }
}

// The residual: the sums of num_segments partial sums and the residual round num_segments times in all, each
// at most u of the sum of magnitudes. The norm's reference is fed with the residual that was stored: its own
// error is ulps_of.
TEST_P(RmsNormTest, AddIsItsDefinition) {
  for (int64_t segments : {1, 2, 4}) {
    for (const Case& c : kCases) {
      WorstError sum_error("sum_s" + std::to_string(segments) + "_n" + std::to_string(c.hidden_size));
      WorstError norm_error("ulps_s" + std::to_string(segments) + "_n" + std::to_string(c.hidden_size),
                            ulps_of(c.hidden_size));
      const Floats partial = random_floats({segments, c.num_tokens, c.hidden_size}, 7, c.scale);
      const Floats before = random_floats({c.num_tokens, c.hidden_size}, 8, c.scale), residual = before;
      const Floats weight = random_floats({c.hidden_size}, 9, 2),
                   out = unwritten({c.num_tokens, c.hidden_size});
      add_rms_norm(
          ctx, {.out = out, .partial_sums = partial, .residual = residual, .weight = weight, .eps = c.eps});
      for (size_t i = 0; i < before.size(); ++i) {
        double want = before[i], magnitude = std::fabs(want);
        for (int64_t s = 0; s < segments; ++s) {
          want += partial[size_t(s) * before.size() + i];
          magnitude += std::fabs(double(partial[size_t(s) * before.size() + i]));
        }
        sum_error.add(residual[i], want, 1.001 * double(segments) * kU * magnitude);
      }
      for (int64_t t = 0; t < c.num_tokens; ++t)
        expect_ulps(norm_error, out.row(t),
                    rms_norm_reference(doubles(residual.row(t)), doubles(weight.span()), c.eps));
    }
  }
}

// From 2^24 on float32 has no odd integers, so that every other order of these four and the residual gives
// other bits.
TEST_P(RmsNormTest, PartialSumsAreAddedAsATree) {
  constexpr int64_t kWidth = 19;
  const float s0 = 1, s1 = 1, s2 = 0x1p24f, s3 = 0x1p24f + 2, r = 0.5f;
  const float expected = ((s0 + s1) + (s2 + s3)) + r;
  ASSERT_NE(expected, (((s0 + s1) + s2) + s3) + r);
  ASSERT_NE(expected, ((s0 + s2) + (s1 + s3)) + r);
  ASSERT_NE(expected, ((s0 + s3) + (s1 + s2)) + r);
  ASSERT_NE(expected, (r + (s0 + s1)) + (s2 + s3));
  ASSERT_NE(expected, (((r + s0) + s1) + s2) + s3);
  const float parts[4] = {s0, s1, s2, s3};
  Floats partial({4, 1, kWidth}), residual({1, kWidth}, r);
  for (int64_t i = 0; i < 4 * kWidth; ++i) partial[size_t(i)] = parts[i / kWidth];
  const Floats weight({kWidth}, 1.0f), out = unwritten({1, kWidth});
  add_rms_norm(ctx, {.out = out, .partial_sums = partial, .residual = residual, .weight = weight});
  for (float v : residual.span()) EXPECT_EQ(v, expected);
}

TEST_P(RmsNormTest, AddMayWriteOverTheFirstPartialSum) {
  for (int64_t segments : {1, 2, 4}) {
    const Floats partial = random_floats({segments, 6, 50}, 10), aliased = partial;
    const Floats residual = random_floats({6, 50}, 11), residual2 = residual;
    const Floats weight = random_floats({50}, 12), out = unwritten({6, 50});
    add_rms_norm(ctx, {.out = out, .partial_sums = partial, .residual = residual, .weight = weight});
    add_rms_norm(
        ctx, {.out = aliased.tensor()[0], .partial_sums = aliased, .residual = residual2, .weight = weight});
    EXPECT_TRUE(same_bits(aliased.row(0), out.span()));
    EXPECT_TRUE(same_bits(residual2.span(), residual.span()));
  }
}

// The definition in ops/rms_norm.h, written plainly in float32: sixteen chains, one tree. Every length of a tail.
TEST(RmsNormBits, IsTheTreeOfItsDefinition) {
  EverySet sets;
  for (int64_t n = 1; n <= 769; n += n < 50 ? 1 : 719) {
    constexpr int64_t kRows = 20;
    const Floats x = random_floats({kRows, n}, uint32_t(n)), weight = random_floats({n}, 2);
    const Floats out = sets.same_bits_from_all("rms_norm " + std::to_string(n), [&](Context& ctx) {
      const Floats result = unwritten({kRows, n});
      rms_norm(ctx, {.out = result, .x = x, .weight = weight, .eps = 1e-3f});
      return result;
    });
    for (int64_t t = 0; t < kRows; ++t) {
      const auto row = x.row(t);
      std::array<float, 16> lanes{};
      for (size_t i = 0; i < row.size(); ++i) lanes[i % 16] = std::fma(row[i], row[i], lanes[i % 16]);
      const float scale = 1.0f / std::sqrt(sum_of_lanes(lanes) / float(n) + 1e-3f);
      for (size_t i = 0; i < row.size(); ++i) ASSERT_EQ(out.row(t)[i], row[i] * scale * weight[i]) << n;
    }
  }
}

TEST(RmsNormBits, AllSetsAgreeAndARowIsTheSameInAnyCompany) {
  EverySet sets(3);
  for (int64_t n : {1, 7, 15, 16, 17, 31, 32, 33, 64, 769, 1024}) {
    const Floats x = random_floats({9, n}, uint32_t(n)), weight = random_floats({n}, 2);
    const Floats whole = sets.same_bits_from_all("rms_norm " + std::to_string(n), [&](Context& ctx) {
      const Floats out = unwritten({9, n});
      rms_norm(ctx, {.out = out, .x = x, .weight = weight});
      return out;
    });
    const Floats partial = random_floats({4, 9, n}, 3);
    sets.same_bits_from_all("add_rms_norm " + std::to_string(n), [&](Context& ctx) {
      const Floats residual = x, out = unwritten({2, 9, n});
      add_rms_norm(ctx,
                   {.out = out.tensor()[0], .partial_sums = partial, .residual = residual, .weight = weight});
      std::memcpy(out.tensor()[1].data, residual.data(), residual.size() * sizeof(float));
      return out;
    });
    for (int64_t t = 0; t < 9; ++t) {
      const Floats alone = sets.same_bits_from_all("one row", [&](Context& ctx) {
        const Floats out = unwritten({1, n});
        rms_norm(ctx, {.out = out, .x = x.tensor().slice(t, 1), .weight = weight});
        return out;
      });
      EXPECT_TRUE(same_bits(alone.span(), whole.row(t)));
    }
  }
}

}  // namespace
}  // namespace nanovllm
