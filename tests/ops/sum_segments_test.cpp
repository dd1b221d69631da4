#include "ops/sum_segments.h"

#include "ops/ops_fixture.h"
#include "ops/rms_norm.h"

namespace nanovllm {
namespace {

using namespace test;

class SumSegmentsTest : public OpTest {};
INSTANTIATE_OP_TEST(SumSegmentsTest);

// One rounding to float32 a sum.
TEST_P(SumSegmentsTest, IsTheSumOfTwo) {
  for (const int64_t n : {1, 7, 33, 1024}) {
    const Floats sums = random_floats({2, 50, n}, uint32_t(n), 100), out = unwritten({50, n});
    sum_segments(ctx, {.out = out, .partial_sums = sums});
    for (size_t i = 0; i < out.size(); ++i) ASSERT_EQ(out[i], sums[i] + sums[out.size() + i]);
  }
}

// Two ranks with two segments each get the bits of one rank with four.
TEST_P(SumSegmentsTest, IsHalfOfTheTreeOfAddRmsNorm) {
  constexpr int64_t kTokens = 9, kSize = 100;
  const Floats four = random_floats({4, kTokens, kSize}, 5), weight = random_floats({kSize}, 6);
  const Tensor all = four;
  const Floats halves = unwritten({2, kTokens, kSize});
  for (int64_t half = 0; half < 2; ++half)
    sum_segments(ctx, {.out = halves.tensor()[half], .partial_sums = all.slice(2 * half, 2)});
  const auto norm = [&](const Tensor& partial_sums) {
    const Floats residual = random_floats({kTokens, kSize}, 7), out = unwritten({kTokens, kSize});
    add_rms_norm(ctx, {.out = out, .partial_sums = partial_sums, .residual = residual, .weight = weight});
    return std::pair(residual, out);
  };
  const auto [residual, out] = norm(halves);
  const auto [want_residual, want_out] = norm(all);
  EXPECT_TRUE(same_bits(residual.span(), want_residual.span()));
  EXPECT_TRUE(same_bits(out.span(), want_out.span()));
}

// On the pool, as all arithmetic: a denormal sum is zero there.
TEST_P(SumSegmentsTest, FlushesDenormals) {
#if defined(__x86_64__)
  const Floats sums = [] {
    Floats values({2, 1, 2});
    values[0] = 1.5e-38f, values[1] = 1e-39f, values[2] = -1.2e-38f, values[3] = 2e-38f;
    return values;
  }();
  const Floats out = unwritten({1, 2});
  sum_segments(ctx, {.out = out, .partial_sums = sums});
  EXPECT_EQ(out[0], 0);
  EXPECT_EQ(out[1], 2e-38f);
#endif
}

TEST_P(SumSegmentsTest, NoTokens) {
  const Floats sums({2, 0, 8}), out({0, 8});
  sum_segments(ctx, {.out = out, .partial_sums = sums});
}

}  // namespace
}  // namespace nanovllm
