// Sixteen float32 lanes in one 512-bit register. See vec_portable.h for what each function means.
#pragma once

#include <immintrin.h>

#include <cstddef>
#include <cstdint>

namespace nanovllm::cpu::avx512 {

struct Vec {
  static constexpr int kLinearRows = 12;    // tokens per tile: 24 accumulators of 32 registers
  static constexpr int kAttentionRows = 8;  // queries per tile

  __m512 v;

  static Vec zero() { return {_mm512_setzero_ps()}; }
  static Vec broadcast(float x) { return {_mm512_set1_ps(x)}; }
  static Vec load(const float* p) { return {_mm512_loadu_ps(p)}; }
  static Vec load_first(const float* p, int n) { return {_mm512_maskz_loadu_ps(mask(n), p)}; }
  void store(float* p) const { _mm512_storeu_ps(p, v); }
  void store_first(float* p, int n) const { _mm512_mask_storeu_ps(p, mask(n), v); }

  static void load_bf16_line(const std::byte* p, Vec& low, Vec& high) {
    const __m512i line = _mm512_loadu_si512(p);
    low = {_mm512_castsi512_ps(_mm512_slli_epi32(line, 16))};
    high = {_mm512_castsi512_ps(_mm512_and_si512(line, _mm512_set1_epi32(int(0xFFFF0000))))};
  }
  static Vec load_f16(const std::byte* p) {
    return {_mm512_cvtph_ps(_mm256_loadu_si256(reinterpret_cast<const __m256i*>(p)))};
  }

  friend Vec operator+(Vec a, Vec b) { return {_mm512_add_ps(a.v, b.v)}; }
  friend Vec operator*(Vec a, Vec b) { return {_mm512_mul_ps(a.v, b.v)}; }
  friend Vec operator/(Vec a, Vec b) { return {_mm512_div_ps(a.v, b.v)}; }
  static Vec fma(Vec a, Vec b, Vec c) { return {_mm512_fmadd_ps(a.v, b.v, c.v)}; }

 private:
  static __mmask16 mask(int n) { return __mmask16((1u << n) - 1); }
};

}  // namespace nanovllm::cpu::avx512
