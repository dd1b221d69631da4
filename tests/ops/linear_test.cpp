#include "ops/linear.h"

#include "ops/ops_fixture.h"

namespace nanovllm {
namespace {

using namespace test;

class LinearTest : public OpTest {};
INSTANTIATE_OP_TEST(LinearTest);

struct Case {
  int64_t num_tokens, out_features, in_features, num_segments;
};
// One element, sizes that no panel, lane or tile divides, more panels than tasks, four segments of odd
// length.
constexpr Case kCases[] = {{1, 1, 1, 1},    {2, 31, 15, 1},   {3, 32, 16, 1},   {5, 33, 17, 1},
                           {12, 64, 31, 1}, {13, 100, 33, 1}, {1, 65, 769, 1},  {30, 97, 769, 1},
                           {1, 7, 4, 4},    {3, 100, 60, 4},  {25, 40, 772, 4}, {1, 96, 132, 4},
                           {2, 200, 68, 2}, {4, 321, 64, 1}};

// A segment is one chain of K fused multiply-adds from zero, each rounding its partial sum once: the error is
// at most K u Σ|x w| (1 + K u). With a bias, one more rounding of the sum, which is at most Σ|x w| + |bias|.
TEST_P(LinearTest, IsItsDefinition) {
  for (DType dtype : kWeightTypes) {
    WorstError worst("error_of_bound_" + std::string(dtype_name(dtype)));
    for (const Case& c : kCases) {
      for (bool with_bias : {false, true}) {
        const int64_t k = c.in_features / c.num_segments;
        const Floats x = random_floats({c.num_tokens, c.in_features}, 1);
        const StoredWeight w(ctx, dtype, random_floats({c.out_features, c.in_features}, 2));
        const Floats bias = random_floats({c.out_features}, 3, 4);
        const Floats out = unwritten({c.num_segments, c.num_tokens, c.out_features});
        linear(ctx, {.out = c.num_segments > 1 ? out.tensor() : out.tensor()[0],
                     .x = x,
                     .weight = w.weight,
                     .bias = with_bias ? bias.tensor() : Tensor()});
        for (int64_t s = 0; s < c.num_segments; ++s) {
          std::vector<double> part;  // this segment's columns of the weight
          for (int64_t n = 0; n < c.out_features; ++n)
            for (int64_t i = 0; i < k; ++i) part.push_back(w.values[size_t(n * c.in_features + s * k + i)]);
          const bool biased = with_bias && s == 0;
          for (int64_t t = 0; t < c.num_tokens; ++t) {
            const std::vector<double> row = doubles(x.row(t).subspan(size_t(s * k), size_t(k)));
            const std::vector<double> want =
                linear_reference(row, part, biased ? doubles(bias.span()) : std::vector<double>());
            for (size_t n = 0; n < want.size(); ++n) {
              double sum = 0;
              for (size_t i = 0; i < row.size(); ++i) sum += std::fabs(row[i] * part[n * row.size() + i]);
              const double bound =
                  kU * (double(k) * sum + (biased ? sum + std::fabs(double(bias[n])) : 0)) * 1.001;
              worst.add(out.row(s)[size_t(t * c.out_features) + n], want[n], bound, "output", int64_t(n));
            }
          }
        }
      }
    }
  }
}

// Integers small enough that every partial sum is exact: what is wrong by one element is wrong.
TEST_P(LinearTest, SmallIntegersAreExact) {
  for (DType dtype : kWeightTypes) {
    for (int64_t tokens : {1, 2, 13}) {
      constexpr int64_t kOut = 77, kIn = 52;
      Floats x({tokens, kIn}), rows({kOut, kIn}), bias({kOut});
      for (size_t i = 0; i < x.size(); ++i) x[i] = float(int(i * 7 % 11) - 5);
      for (size_t i = 0; i < rows.size(); ++i) rows[i] = float(int(i * 5 % 13) - 6);
      for (size_t i = 0; i < bias.size(); ++i) bias[i] = float(i) * 1000;
      const StoredWeight w(ctx, dtype, rows);
      const Floats out = unwritten({tokens, kOut}), parts = unwritten({4, tokens, kOut});
      linear(ctx, {.out = out, .x = x, .weight = w.weight, .bias = bias});
      linear(ctx, {.out = parts, .x = x, .weight = w.weight, .bias = bias});
      for (int64_t t = 0; t < tokens; ++t) {
        const std::vector<double> want = linear_reference(doubles(x.row(t)), w.values, doubles(bias.span()));
        ASSERT_EQ(doubles(out.row(t)), want);
        for (size_t n = 0; n < size_t(kOut); ++n) {
          const size_t i = size_t(t) * kOut + n;
          ASSERT_EQ((parts.row(0)[i] + parts.row(1)[i]) + (parts.row(2)[i] + parts.row(3)[i]), want[n]);
        }
      }
    }
  }
}

TEST_P(LinearTest, OrderOfTheChain) {  // 2^24 + 1 + 1 is 2^24 in this order only
  const Floats x = Floats({1, 3}, 1.0f);
  Floats rows({3, 3});
  const float cells[9] = {0x1p24f, 1, 1, 1, 1, 0x1p24f, 1, 0x1p24f, 1};
  std::copy_n(cells, 9, rows.data());
  const StoredWeight w(ctx, DType::kF32, rows);
  const Floats out = unwritten({1, 3});
  linear(ctx, {.out = out, .x = x, .weight = w.weight});
  EXPECT_TRUE(same_bits(out.span(), floats({0x1p24f, 0x1p24f + 2, 0x1p24f}).span()));
}

TEST_P(LinearTest, BiasComesAfterTheChain) {
  const Floats x({1, 2}, 1.0f), rows({1, 2}, 1.0f), bias({1}, 0x1p24f), out = unwritten({1, 1});
  const StoredWeight w(ctx, DType::kF32, rows);
  linear(ctx, {.out = out, .x = x, .weight = w.weight, .bias = bias});
  EXPECT_EQ(out[0], 0x1p24f + 2);  // 2^24 + 1 + 1 would stay 2^24
}

TEST_P(LinearTest, StridedRowsAndOutputs) {
  const Floats wide_x = random_floats({14, 50}, 4), x({14, 40}), wide_out({14, 70}, 7.0f),
               want = unwritten({14, 45});
  for (int64_t t = 0; t < 14; ++t) std::copy_n(wide_x.row(t).data(), 40, x.tensor().ptr<float>() + t * 40);
  const StoredWeight w(ctx, DType::kBF16, random_floats({45, 40}, 5));
  linear(ctx, {.out = want, .x = x, .weight = w.weight});
  Tensor strided_x = wide_x, strided_out = wide_out;
  strided_x.shape[1] = 40;
  strided_out.shape[1] = 45;
  linear(ctx, {.out = strided_out, .x = strided_x, .weight = w.weight});
  for (int64_t t = 0; t < 14; ++t) {
    EXPECT_TRUE(same_bits(wide_out.row(t).first(45), want.row(t)));
    for (float v : wide_out.row(t).subspan(45)) ASSERT_EQ(v, 7.0f) << "written past the last output";
  }
}

TEST_P(LinearTest, NoTokens) {
  const StoredWeight w(ctx, DType::kF32, random_floats({5, 4}, 1));
  const Floats x({0, 4}), out({0, 5});
  linear(ctx, {.out = out, .x = x, .weight = w.weight});
}

TEST_P(LinearTest, ANanStaysInItsRow) {
  Floats x = random_floats({13, 20}, 6);
  const StoredWeight w(ctx, DType::kBF16, random_floats({40, 20}, 7));
  const Floats want = unwritten({13, 40}), out = unwritten({13, 40});
  linear(ctx, {.out = want, .x = x, .weight = w.weight});
  x[5 * 20 + 19] = kNan;
  linear(ctx, {.out = out, .x = x, .weight = w.weight});
  for (int64_t t = 0; t < 13; ++t) {
    if (t == 5)
      for (float v : out.row(t)) EXPECT_TRUE(std::isnan(v));
    else
      EXPECT_TRUE(same_bits(out.row(t), want.row(t))) << t;
  }
}

}  // namespace
}  // namespace nanovllm
