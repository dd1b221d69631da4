#include "tensor/dtype.h"

#include <cmath>
#include <limits>

#include "support.h"

namespace nanovllm {
namespace {

constexpr float kInfinity = std::numeric_limits<float>::infinity();

uint32_t bits_of(float value) { return std::bit_cast<uint32_t>(value); }

// The value of a 16-bit float with this many mantissa bits, from the definition in IEEE 754; in double,
// exact.
double value_of(uint16_t bits, int mantissa_bits) {
  const int exponent_bits = 15 - mantissa_bits, bias = (1 << (exponent_bits - 1)) - 1;
  const int exponent = bits >> mantissa_bits & ((1 << exponent_bits) - 1);
  const int mantissa = bits & ((1 << mantissa_bits) - 1);
  const double sign = bits & 0x8000 ? -1 : 1;
  if (exponent == (1 << exponent_bits) - 1) return mantissa ? std::nan("") : sign * double(kInfinity);
  if (exponent == 0) return sign * std::ldexp(mantissa, 1 - bias - mantissa_bits);
  return sign * std::ldexp((1 << mantissa_bits) + mantissa, exponent - bias - mantissa_bits);
}

template <class Widen, class Narrow>
void check_all_patterns(int mantissa_bits, Widen widen, Narrow narrow) {
  for (uint32_t pattern = 0; pattern < 0x10000; ++pattern) {
    const uint16_t bits = uint16_t(pattern);
    const double want = value_of(bits, mantissa_bits);
    const float wide = widen(bits);
    if (std::isnan(want)) {
      ASSERT_TRUE(std::isnan(wide)) << pattern;
      ASSERT_TRUE(std::isnan(widen(narrow(wide)))) << pattern;
      continue;
    }
    ASSERT_EQ(bits_of(wide), bits_of(float(want))) << pattern;  // signed zeros too
    ASSERT_EQ(narrow(wide), bits) << pattern;

    // Between this value and the next larger one: below the middle down, above it up, in the middle to the
    // even one.
    const uint16_t above = uint16_t(bits + 1);
    if (bits & 0x8000 || std::isinf(want) || std::isinf(widen(above))) continue;
    const float middle = float((want + value_of(above, mantissa_bits)) / 2);
    ASSERT_EQ(narrow(middle), bits & 1 ? above : bits) << pattern;
    ASSERT_EQ(narrow(std::nextafter(middle, 0.0f)), bits) << pattern;
    ASSERT_EQ(narrow(std::nextafter(middle, kInfinity)), above) << pattern;
    ASSERT_EQ(narrow(-middle), (bits & 1 ? above : bits) | 0x8000) << pattern;
  }
}

TEST(DType, EveryF16PatternWidensExactlyAndNarrowsBack) {
  check_all_patterns(10, f16_to_float, float_to_f16);
}

TEST(DType, EveryBf16PatternWidensExactlyAndNarrowsBack) {
  check_all_patterns(7, bf16_to_float, float_to_bf16);
}

TEST(DType, WhatIsTooLargeBecomesInfinite) {
  EXPECT_EQ(float_to_f16(65504.0f), 0x7BFF);
  EXPECT_EQ(float_to_f16(std::nextafter(65520.0f, 0.0f)), 0x7BFF);
  EXPECT_EQ(float_to_f16(65520.0f), 0x7C00);
  EXPECT_EQ(float_to_f16(-1e30f), 0xFC00);
  EXPECT_EQ(float_to_f16(kInfinity), 0x7C00);
  EXPECT_EQ(float_to_bf16(std::bit_cast<float>(0x7F7F7FFFu)), 0x7F7F);
  EXPECT_EQ(float_to_bf16(std::bit_cast<float>(0x7F7F8000u)), 0x7F80);
  EXPECT_EQ(float_to_bf16(std::numeric_limits<float>::lowest()), 0xFF80);
  EXPECT_EQ(float_to_bf16(-kInfinity), 0xFF80);
}

TEST(DType, WhatIsTooSmallBecomesZeroOfItsSign) {
  EXPECT_EQ(float_to_f16(0x1p-25f), 0);  // the middle between 0 and the smallest: to the even one
  EXPECT_EQ(float_to_f16(std::nextafter(0x1p-25f, 1.0f)), 1);
  EXPECT_EQ(float_to_f16(-1e-30f), 0x8000);
  EXPECT_EQ(float_to_f16(-0.0f), 0x8000);
}

TEST(DType, ANanWhoseBitsLieLowStaysANan) {
  const float low_nan = std::bit_cast<float>(0x7F800001u);
  EXPECT_TRUE(std::isnan(bf16_to_float(float_to_bf16(low_nan))));
  EXPECT_TRUE(std::isnan(f16_to_float(float_to_f16(low_nan))));
}

TEST(DType, NamesAndSizes) {
  EXPECT_EQ(dtype_name(DType::kF32), "f32");
  EXPECT_EQ(dtype_name(DType::kF16), "f16");
  EXPECT_EQ(dtype_name(DType::kBF16), "bf16");
  EXPECT_EQ(dtype_name(DType::kI32), "i32");
  EXPECT_EQ(dtype_bytes(DType::kF32), 4u);
  EXPECT_EQ(dtype_bytes(DType::kF16), 2u);
  EXPECT_EQ(dtype_bytes(DType::kBF16), 2u);
  EXPECT_EQ(dtype_bytes(DType::kI32), 4u);
}

TEST(DTypeDeathTest, AnUnknownTypeIsABug) { EXPECT_DEATH(dtype_name(DType(99)), "known dtype"); }

}  // namespace
}  // namespace nanovllm
