// Element types of tensors, and the exact widening of the 16-bit floats.
#pragma once

#include <bit>
#include <cstddef>
#include <cstdint>
#include <string_view>

namespace nanovllm {

enum class DType : uint8_t { kF32, kF16, kBF16, kI32 };

size_t dtype_bytes(DType dtype);
std::string_view dtype_name(DType dtype);  // "f32", "f16", "bf16", "i32"

// bfloat16 is the upper half of a float32.
inline float bf16_to_float(uint16_t bits) { return std::bit_cast<float>(uint32_t(bits) << 16); }

// IEEE binary16, subnormals, infinities and NaN included.
float f16_to_float(uint16_t bits);

// Element `index` of an array of f32, f16 or bf16 at any address, widened exactly.
float read_float(const std::byte* data, DType dtype, int64_t index);

// To the nearest, ties to even; what is too large becomes infinite, NaN stays NaN.
uint16_t float_to_bf16(float value);
uint16_t float_to_f16(float value);

}  // namespace nanovllm
