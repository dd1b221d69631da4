#include "layers/rotary_embedding.h"

#include <gtest/gtest.h>

#include <cmath>

#include "layers/layer_bench.h"

namespace nanovllm {
namespace {

TEST(RotaryEmbedding, InverseFrequenciesAreThoseOfTheDefinition) {
  for (const int dim : {2, 32, 96, 128}) {
    for (const double base : {10000.0, 1e6, 5e6}) {
      const std::vector<float> inv_freq = RotaryEmbedding::inverse_frequencies(dim, base);
      ASSERT_EQ(inv_freq.size(), size_t(dim / 2));
      EXPECT_EQ(inv_freq[0], 1.0f);
      for (size_t i = 0; i < inv_freq.size(); ++i) {
        const double want = std::pow(base, -2.0 * double(i) / dim);
        // Three roundings to float32: of the exponent (the power moves by ln base times that), of the power,
        // of its inverse.
        const double bound = (0.5 * std::log(base) + 0.5 + 0.5) * 0x1p-23;
        EXPECT_NEAR(inv_freq[i] / want, 1, bound) << "dim " << dim << " base " << base << " i " << i;
      }
    }
  }
}

TEST(RotaryEmbedding, TheTableIsWithinHalfAnUlpOfTheFloat32Angle) {
  constexpr int kDim = 128, kPositions = 5000;
  const RotaryEmbedding rotary(host_device(), kDim, kPositions, 1e6);
  const std::vector<float> inv_freq = RotaryEmbedding::inverse_frequencies(kDim, 1e6);
  const Tensor& table = rotary.cos_sin();
  ASSERT_EQ(to_string(table), "[5000, 128] f32");
  EXPECT_EQ(rotary.bytes(), size_t{kPositions} * kDim * sizeof(float));
  double worst = 0;
  const auto ulps = [](float value, long double want) {
    const double ulp = std::max(0x1p-149, std::ldexp(1.0, std::ilogb(double(want)) - 23));
    return std::abs(double((value - want) / ulp));
  };
  for (int p = 0; p < kPositions; ++p) {
    for (int i = 0; i < kDim / 2; ++i) {
      const float angle = float(p) * inv_freq[size_t(i)];
      const float* row = table.ptr<float>() + p * kDim;
      worst = std::max(worst, ulps(row[i], std::cos((long double)(angle))));
      if (angle != 0) worst = std::max(worst, ulps(row[kDim / 2 + i], std::sin((long double)(angle))));
    }
  }
  // Half for the rounding; the double before it may be off by 1 of its own ULP, 2^-29 of ours.
  EXPECT_LE(worst, 0.5 + 0x1p-28);
}

TEST(RotaryEmbedding, Position0TurnsNothing) {
  const RotaryEmbedding rotary(host_device(), 8, 1, 1e4);
  const float* row = rotary.cos_sin().ptr<float>();
  EXPECT_EQ(std::vector<float>(row, row + 8), (std::vector<float>{1, 1, 1, 1, 0, 0, 0, 0}));
}

TEST(RotaryEmbedding, TurnsHalvesByTheirPosition) {
  const RotaryEmbedding rotary(host_device(), 4, 8, 1e4);
  std::vector<float> q{1, 2, 3, 4, 1, 2, 3, 4}, k = q;  // two tokens of one head
  std::vector<int32_t> positions{7, 0};
  test::OpBench bench;
  rotary.forward(bench.ctx, Tensor::view(q.data(), DType::kF32, {2, 1, 4}),
                 Tensor::view(k.data(), DType::kF32, {2, 1, 4}),
                 Tensor::view(positions.data(), DType::kI32, {2}));
  EXPECT_EQ(q, k);
  EXPECT_EQ(std::vector<float>(q.begin() + 4, q.end()), (std::vector<float>{1, 2, 3, 4}));
  const std::vector<float> inv_freq = RotaryEmbedding::inverse_frequencies(4, 1e4);
  for (int i = 0; i < 2; ++i) {
    const double angle = 7.0f * inv_freq[size_t(i)], x1 = i + 1, x2 = i + 3;
    EXPECT_NEAR(q[size_t(i)], x1 * std::cos(angle) - x2 * std::sin(angle), 1e-6);
    EXPECT_NEAR(q[size_t(i) + 2], x2 * std::cos(angle) + x1 * std::sin(angle), 1e-6);
  }
}

}  // namespace
}  // namespace nanovllm
