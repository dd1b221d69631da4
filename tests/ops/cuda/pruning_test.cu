// What sampling leaves out (ops/cuda/sample.cuh) could not have won; on the host, with the same functions.
#include <gtest/gtest.h>

#include "base/random.h"
#include "ops/cuda/sample.cuh"

namespace nanovllm {
namespace {

using cuda::Pruning;

// By which much of the margin is argued.
TEST(Pruning, TheNoiseIsWithinItsBound) {
  const auto exceeds = [](uint32_t bits) {
    return double(gumbel_f32(bits)) + std::log(std::max(double(bits), 1.0) * 0x1p-32) >= 0x1p-16;
  };
  for (uint64_t bits = 0; bits < 1u << 20; ++bits) {
    ASSERT_FALSE(exceeds(uint32_t(bits))) << bits;
    ASSERT_FALSE(exceeds(uint32_t(~bits))) << uint32_t(~bits);
  }
  for (uint64_t bits = 0; bits < uint64_t{1} << 32; bits += 4099)
    ASSERT_FALSE(exceeds(uint32_t(bits))) << bits;
}

TEST(Pruning, LeavesOutOnlyWhatIsBelowTheFloor) {
  const uint64_t seed = 7;
  int64_t num_left_out = 0, num_kept = 0;
  for (uint32_t trial = 0; trial < 3'000'000; ++trial) {
    const Philox4x32 random = philox(seed, {trial, 0, 0, 0});
    const float temperature = std::exp2f(float(random[0] % 40) - 12);
    const float logit =
        float(int32_t(random[1])) * 0x1p-31f * std::exp2f(float(random[0] / 64 % 12)) * temperature;
    const float x = logit / temperature;
    // Bits at which x + g is near the floor.
    const uint32_t bits = random[2] >> random[0] / 4096 % 32;
    const float value = x + gumbel_f32(bits),
                floor = value + float(int32_t(random[3])) * 0x1p-31f *
                                    std::exp2f(float(random[0] / 131072 % 16) - 12);
    const float exponent =
        Pruning::exponent(logit, Pruning::scale_of(temperature), Pruning::offset_of(floor));
    const bool left_out = Pruning::loses_with_any_bits(exponent) || Pruning::loses(bits, exponent);
    ASSERT_FALSE(left_out && value >= floor)
        << logit << " / " << temperature << ", bits " << bits << ", floor " << floor;
    ++(left_out ? num_left_out : num_kept);
  }
  EXPECT_GT(num_left_out, 500'000);
  EXPECT_GT(num_kept, 500'000);
}

}  // namespace
}  // namespace nanovllm
