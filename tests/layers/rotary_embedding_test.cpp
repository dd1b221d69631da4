#include "layers/rotary_embedding.h"

#include <gtest/gtest.h>

#include <cmath>
#include <cstring>

#include "checkpoint/safetensors.h"
#include "layers/layer_bench.h"
#include "ops/rope.h"

namespace nanovllm {
namespace {

TEST(RotaryEmbedding, InverseFrequenciesAreThoseOfTheDefinition) {
  for (const int dim : {2, 32, 96, 128}) {
    for (const double base : {10000.0, 1e6, 5e6}) {
      const std::vector<float> inv_freq = RotaryEmbedding::inverse_frequencies(dim, {.theta = base});
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
  const RotaryEmbedding rotary(host_device(), kDim, kPositions, {.theta = 1e6});
  const std::vector<float> inv_freq = RotaryEmbedding::inverse_frequencies(kDim, {.theta = 1e6});
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
  const RotaryEmbedding rotary(host_device(), 8, 1, {.theta = 1e4});
  const float* row = rotary.cos_sin().ptr<float>();
  EXPECT_EQ(std::vector<float>(row, row + 8), (std::vector<float>{1, 1, 1, 1, 0, 0, 0, 0}));
}

TEST(RotaryEmbedding, TurnsHalvesByTheirPosition) {
  const RotaryEmbedding rotary(host_device(), 4, 8, {.theta = 1e4});
  std::vector<float> q{1, 2, 3, 4, 1, 2, 3, 4}, k = q;  // two tokens of one head
  std::vector<int32_t> positions{7, 0};
  test::OpBench bench;
  rope(bench.ctx, {.q = Tensor::view(q.data(), DType::kF32, {2, 1, 4}),
                   .k = Tensor::view(k.data(), DType::kF32, {2, 1, 4}),
                   .positions = Tensor::view(positions.data(), DType::kI32, {2}),
                   .cos_sin = rotary.cos_sin()});
  EXPECT_EQ(q, k);
  EXPECT_EQ(std::vector<float>(q.begin() + 4, q.end()), (std::vector<float>{1, 2, 3, 4}));
  const std::vector<float> inv_freq = RotaryEmbedding::inverse_frequencies(4, {.theta = 1e4});
  for (int i = 0; i < 2; ++i) {
    const double angle = 7.0f * inv_freq[size_t(i)], x1 = i + 1, x2 = i + 3;
    EXPECT_NEAR(q[size_t(i)], x1 * std::cos(angle) - x2 * std::sin(angle), 1e-6);
    EXPECT_NEAR(q[size_t(i) + 2], x2 * std::cos(angle) + x1 * std::sin(angle), 1e-6);
  }
}

// tests/golden/rope: tables of transformers, made by tools/make_rope_tables.py.
struct RopeCase {
  std::string name;
  RopeConfig config;
  int rotary_dim = 128;
};

const RopeCase kRopeCases[] = {
    {"default-1e4", {.theta = 1e4}},
    {"default-1e6", {.theta = 1e6}},
    {"default-5e6-dim64", {.theta = 5e6}, 64},
    {"default-5e5", {.theta = 5e5}},
    {"linear-4", {.type = RopeType::kLinear, .theta = 1e4, .factor = 4}},
    {"yarn-qwen3", {.type = RopeType::kYarn, .theta = 1e6, .factor = 4, .original_max_positions = 32768}},
    {"yarn-qwen3-max40960",
     {.type = RopeType::kYarn, .theta = 1e6, .factor = 4, .original_max_positions = 32768}},
    {"yarn-attention-factor",
     {.type = RopeType::kYarn,
      .theta = 1e6,
      .factor = 4,
      .original_max_positions = 32768,
      .attention_factor = 1.5}},
    {"yarn-betas",
     {.type = RopeType::kYarn,
      .theta = 1e6,
      .factor = 4,
      .original_max_positions = 32768,
      .beta_fast = 16,
      .beta_slow = 2}},
    {"yarn-no-truncate",
     {.type = RopeType::kYarn, .theta = 1e4, .factor = 8, .original_max_positions = 4096, .truncate = false},
     64},
    {"yarn-mscale",
     {.type = RopeType::kYarn,
      .theta = 1e4,
      .factor = 40,
      .original_max_positions = 4096,
      .mscale = 0.707,
      .mscale_all_dim = 0.5},
     64},
    {"yarn-no-original",
     {.type = RopeType::kYarn, .theta = 1e6, .factor = 2, .original_max_positions = 32768}},
    {"llama3-8", {.type = RopeType::kLlama3, .theta = 5e5, .factor = 8, .original_max_positions = 8192}},
    {"llama3-32-dim64",
     {.type = RopeType::kLlama3, .theta = 5e5, .factor = 32, .original_max_positions = 8192},
     64}};

class RopeTables : public testing::TestWithParam<RopeCase> {
 protected:
  std::vector<float> array(const std::string& name) const {
    const CheckpointTensor* tensor = tables_.find(name);
    std::vector<float> values(tensor->data.size() / sizeof(float));
    std::memcpy(values.data(), tensor->data.data(), tensor->data.size());
    return values;
  }
  std::vector<int32_t> positions() const {
    const CheckpointTensor* tensor = tables_.find("positions");
    std::vector<int32_t> values(tensor->data.size() / sizeof(int32_t));
    std::memcpy(values.data(), tensor->data.data(), tensor->data.size());
    return values;
  }

  Checkpoint tables_ = open_safetensors(test::golden("rope") / "tables.safetensors");
};
INSTANTIATE_TEST_SUITE_P(Cases, RopeTables, testing::ValuesIn(kRopeCases), [](const auto& info) {
  std::string name = info.param.name;
  std::erase_if(name, [](char c) { return c == '-'; });
  return name;
});

// The same float32 operations in the same order give the same bits. The power is the exception: ours is rounded to the
// nearest, torch's depends on the processor and may be off by one, once in 64 here.
TEST_P(RopeTables, FrequenciesAreThoseOfTransformers) {
  const std::vector<float> want = array(GetParam().name + ".inv_freq");
  const std::vector<float> got =
      RotaryEmbedding::inverse_frequencies(GetParam().rotary_dim, GetParam().config);
  ASSERT_EQ(got.size(), want.size());
  int num_different = 0;
  for (size_t i = 0; i < got.size(); ++i) {
    num_different += got[i] != want[i];
    EXPECT_NEAR(got[i] / want[i], 1, 0x1p-22) << i;
  }
  EXPECT_LE(num_different, 1);
}

// Within 1e-6, and what the one frequency above turns further by then.
TEST_P(RopeTables, CosinesAndSinesAreThoseOfTransformers) {
  const std::vector<float> inv_freq = array(GetParam().name + ".inv_freq");
  const std::vector<float> want = array(GetParam().name + ".cos_sin");
  const int dim = GetParam().rotary_dim;
  const std::vector<float> ours = RotaryEmbedding::inverse_frequencies(dim, GetParam().config);
  const RotaryEmbedding rotary(host_device(), dim, 131072, GetParam().config);
  const std::vector<int32_t> positions = this->positions();
  ASSERT_EQ(positions.back(), 131071);
  ASSERT_EQ(want.size(), positions.size() * size_t(dim));
  for (size_t row = 0; row < positions.size(); ++row)
    for (size_t i = 0; i < size_t(dim); ++i) {
      const size_t pair = i % size_t(dim / 2);
      const double turned = std::abs(double(ours[pair]) - inv_freq[pair]) * positions[row] * 1.5;
      ASSERT_NEAR(rotary.cos_sin().ptr<float>()[positions[row] * dim + int(i)], want[row * size_t(dim) + i],
                  1e-6 + turned)
          << "position " << positions[row] << ", " << i;
    }
}

TEST(RotaryEmbedding, AttentionFactorOfYarn) {
  RopeConfig c{.type = RopeType::kYarn, .theta = 1e6, .factor = 4, .original_max_positions = 64};
  const auto factor = [&] { return RotaryEmbedding::attention_factor(c); };
  EXPECT_EQ(factor(), 0.1 * std::log(4.0) + 1);
  c.mscale = 2;  // one alone says nothing
  EXPECT_EQ(factor(), 0.1 * std::log(4.0) + 1);
  c.mscale_all_dim = 3;
  EXPECT_EQ(factor(), (0.2 * std::log(4.0) + 1) / (0.1 * 3 * std::log(4.0) + 1));
  c.attention_factor = 0.25;
  EXPECT_EQ(factor(), 0.25);
  c = {.type = RopeType::kYarn, .theta = 1e6, .factor = 1, .original_max_positions = 64};
  EXPECT_EQ(factor(), 1);
  for (const RopeType type : {RopeType::kDefault, RopeType::kLinear, RopeType::kLlama3})
    EXPECT_EQ(RotaryEmbedding::attention_factor({.type = type, .theta = 1e6, .factor = 4}), 1);
}

}  // namespace
}  // namespace nanovllm
