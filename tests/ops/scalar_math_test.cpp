// exp_f32 and log_f32 against double: the claims of their comments, over every exponent.
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

}  // namespace
}  // namespace nanovllm
