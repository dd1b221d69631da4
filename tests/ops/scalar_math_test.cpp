// exp_f32, log_f32 and gumbel_f32 against double: the claims of their comments, over every exponent.
#include "ops/scalar_math.h"

#include "ops/ops_fixture.h"

namespace nanovllm {
namespace {

using namespace test;

// Every step-th float32 from one bit pattern to another (same sign).
template <class Body>
void sweep(float from, float to, uint32_t step, Body body) {
  const uint32_t end = std::bit_cast<uint32_t>(to);
  for (uint64_t bits = std::bit_cast<uint32_t>(from); bits <= end; bits += step)
    body(std::bit_cast<float>(uint32_t(bits)));
  body(to);
}

TEST(ScalarMath, ExpIsWithinTwoUlp) {
  WorstError worst("exp_ulps", 2);
  const auto check = [&](float x) { worst.add(exp_f32(x), std::exp(double(x)), ulp(std::exp(double(x)))); };
  sweep(0.0f, 88.0f, 613, check);
  sweep(-0.0f, -87.3f, 613, check);
}

TEST(ScalarMath, ExpNearItsEndsAndBeyond) {
  WorstError worst("exp_ulps", 2);
  const auto check = [&](float x) { worst.add(exp_f32(x), std::exp(double(x)), ulp(std::exp(double(x)))); };
  sweep(87.9f, 88.0f, 1, check);
  sweep(-87.29f, -87.3f, 1, check);
  for (float x : {std::nextafter(-87.3f, -100.0f), -88.0f, -103.9f, -1e4f, -1e38f, -kInfinity})
    EXPECT_EQ(std::bit_cast<uint32_t>(exp_f32(x)), 0u) << x;
  for (float x : {88.1f, 100.0f, 1e38f, kInfinity}) EXPECT_EQ(exp_f32(x), exp_f32(88.0f)) << x;
  EXPECT_TRUE(std::isnan(exp_f32(kNan)));
  EXPECT_TRUE(std::isnan(exp_f32(-kNan)));
  EXPECT_EQ(exp_f32(0.0f), 1.0f);
  EXPECT_EQ(exp_f32(-0.0f), 1.0f);
}

// A weight of attention or of top_p is never above that of the maximum.
TEST(ScalarMath, ExpOfMinusSomethingIsAtMostOne) {
  sweep(-0.0f, -87.3f, 97, [](float x) { ASSERT_LE(exp_f32(x), 1.0f) << x; });
}

TEST(ScalarMath, LogIsWithinTwoUlpAwayFromOne) {
  WorstError worst("log_ulps", 2);
  const auto check = [&](float x) {
    if (x < 0.5f || x > 2.0f) worst.add(log_f32(x), std::log(double(x)), ulp(std::log(double(x))));
  };
  sweep(0x1p-126f, std::numeric_limits<float>::max(), 1009, check);
}

TEST(ScalarMath, LogNearOne) {
  WorstError worst("log_absolute_error", 1e-7);
  sweep(0.5f, 2.0f, 7, [&](float x) { worst.add(log_f32(x), std::log(double(x)), 1); });
  EXPECT_EQ(log_f32(1.0f), 0.0f);
}

// The uniform number that the noise is made of, in float32 as the comment has it.
double uniform_of(uint32_t bits) {
  return std::min(double(std::fma(float(bits >> 1), 0x1p-31f, 0x1p-32f)), 1 - 0x1p-24);
}

// −log of −log(1 − u). For u >= 1/64 the inner logarithm is off by at most 1e-7, or 2 ULP where it is large,
// 1 − u by half an ULP, 2^-25; for smaller u by 4 u relative and 2e-8. The outer one adds 1e-7 or 2 ULP of at
// most 22.
TEST(ScalarMath, GumbelIsItsDefinition) {
  WorstError worst("gumbel_error_of_bound");
  const auto check = [&](uint32_t bits) {
    const double u = uniform_of(bits), inner = -std::log1p(-u), want = -std::log(inner);
    const double inner_error =
        u < 0x1p-6 ? (4 * kU + 2e-8) * inner : 1e-7 + 2 * ulp(inner) + 0x1p-25 / (1 - u);
    worst.add(gumbel_f32(bits), want, inner_error / inner + 1e-7 + 2 * ulp(want), "bits", int64_t(bits));
  };
  for (uint64_t bits = 0; bits < uint64_t{1} << 32; bits += 1511) check(uint32_t(bits));
  for (uint32_t bits = 0; bits < 100000; ++bits) check(bits);   // the largest noise
  for (uint32_t bits = 0; bits < 100000; ++bits) check(~bits);  // the smallest
  for (uint32_t bits = 0; bits < 100000; ++bits)
    check((1u << 26) - 50000 + bits);  // where the formula changes
}

TEST(ScalarMath, GumbelIsFiniteAtBothEnds) {
  EXPECT_NEAR(gumbel_f32(0), -std::log(0x1p-32), 1e-5);
  EXPECT_NEAR(gumbel_f32(0xFFFFFFFFu), -std::log(24 * std::log(2.0)), 1e-5);
  EXPECT_EQ(gumbel_f32(0), gumbel_f32(1));  // the lowest bit is not used
}

}  // namespace
}  // namespace nanovllm
