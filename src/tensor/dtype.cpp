#include "tensor/dtype.h"

#include <cmath>
#include <cstring>

#include "base/assert.h"

namespace nanovllm {

size_t dtype_bytes(DType dtype) { return dtype == DType::kF16 || dtype == DType::kBF16 ? 2 : 4; }

std::string_view dtype_name(DType dtype) {
  switch (dtype) {
    case DType::kF32:
      return "f32";
    case DType::kF16:
      return "f16";
    case DType::kBF16:
      return "bf16";
    case DType::kI32:
      return "i32";
  }
  assert_failed("known dtype", __FILE__, __LINE__);
}

float f16_to_float(uint16_t bits) {
  const uint32_t sign = uint32_t(bits & 0x8000) << 16, exponent = bits >> 10 & 0x1F, mantissa = bits & 0x3FF;
  if (exponent == 0x1F) return std::bit_cast<float>(sign | 0x7F800000 | mantissa << 13);
  if (exponent > 0) return std::bit_cast<float>(sign | (exponent + 112) << 23 | mantissa << 13);
  const float magnitude = float(mantissa) * 0x1p-24f;  // subnormal or zero
  return sign ? -magnitude : magnitude;
}

uint16_t float_to_bf16(float value) {
  const uint32_t bits = std::bit_cast<uint32_t>(value);
  if (std::isnan(value)) return uint16_t(bits >> 16 | 0x40);
  return uint16_t((bits + 0x7FFF + (bits >> 16 & 1)) >> 16);
}

uint16_t float_to_f16(float value) {
  const uint16_t sign = uint16_t(std::bit_cast<uint32_t>(value) >> 16 & 0x8000);
  const float magnitude = std::fabs(value);
  if (std::isnan(value)) return uint16_t(sign | 0x7E00);
  if (magnitude >= 65520.0f) return uint16_t(sign | 0x7C00);
  if (magnitude < 0x1p-14f) return uint16_t(sign | uint16_t(std::nearbyint(magnitude * 0x1p24f)));
  const uint32_t bits = std::bit_cast<uint32_t>(magnitude) - (uint32_t{112} << 23);
  return uint16_t(sign | (bits + 0xFFF + (bits >> 13 & 1)) >> 13);
}

float read_float(const std::byte* data, DType dtype, int64_t index) {
  if (dtype == DType::kF32) {
    float value;
    std::memcpy(&value, data + 4 * index, sizeof value);
    return value;
  }
  uint16_t bits;
  std::memcpy(&bits, data + 2 * index, sizeof bits);
  return dtype == DType::kBF16 ? bf16_to_float(bits) : f16_to_float(bits);
}

}  // namespace nanovllm
