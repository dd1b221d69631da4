// Sixteen float32 lanes in two 256-bit registers. See vec_portable.h for what each function means.
#pragma once

#include <immintrin.h>

#include <cstddef>
#include <cstdint>

namespace nanovllm::cpu::avx2 {

struct Vec {
  static constexpr int kLinearRows = 2;     // tokens per tile: 8 accumulators of 16 registers
  static constexpr int kAttentionRows = 4;  // queries per tile

  __m256 a, b;  // lanes 0-7, 8-15

  static Vec zero() { return {_mm256_setzero_ps(), _mm256_setzero_ps()}; }
  static Vec broadcast(float x) { return {_mm256_set1_ps(x), _mm256_set1_ps(x)}; }
  static Vec load(const float* p) { return {_mm256_loadu_ps(p), _mm256_loadu_ps(p + 8)}; }
  static Vec load_first(const float* p, int n) {
    return {_mm256_maskload_ps(p, mask(n)),
            n > 8 ? _mm256_maskload_ps(p + 8, mask(n - 8)) : _mm256_setzero_ps()};
  }
  void store(float* p) const {
    _mm256_storeu_ps(p, a);
    _mm256_storeu_ps(p + 8, b);
  }
  void store_first(float* p, int n) const {
    _mm256_maskstore_ps(p, mask(n), a);
    if (n > 8) _mm256_maskstore_ps(p + 8, mask(n - 8), b);
  }

  static void load_bf16_line(const std::byte* p, Vec& low, Vec& high) {
    const __m256i first = _mm256_loadu_si256(reinterpret_cast<const __m256i*>(p));
    const __m256i second = _mm256_loadu_si256(reinterpret_cast<const __m256i*>(p + 32));
    const __m256i upper_half = _mm256_set1_epi32(int(0xFFFF0000));
    low = {_mm256_castsi256_ps(_mm256_slli_epi32(first, 16)),
           _mm256_castsi256_ps(_mm256_slli_epi32(second, 16))};
    high = {_mm256_castsi256_ps(_mm256_and_si256(first, upper_half)),
            _mm256_castsi256_ps(_mm256_and_si256(second, upper_half))};
  }
  static Vec load_f16(const std::byte* p) {
    return {_mm256_cvtph_ps(_mm_loadu_si128(reinterpret_cast<const __m128i*>(p))),
            _mm256_cvtph_ps(_mm_loadu_si128(reinterpret_cast<const __m128i*>(p + 16)))};
  }

  friend Vec operator+(Vec x, Vec y) { return {_mm256_add_ps(x.a, y.a), _mm256_add_ps(x.b, y.b)}; }
  friend Vec operator*(Vec x, Vec y) { return {_mm256_mul_ps(x.a, y.a), _mm256_mul_ps(x.b, y.b)}; }
  friend Vec operator/(Vec x, Vec y) { return {_mm256_div_ps(x.a, y.a), _mm256_div_ps(x.b, y.b)}; }
  static Vec fma(Vec x, Vec y, Vec z) {
    return {_mm256_fmadd_ps(x.a, y.a, z.a), _mm256_fmadd_ps(x.b, y.b, z.b)};
  }

 private:
  // All ones in the first n of eight lanes.
  static __m256i mask(int n) {
    return _mm256_cmpgt_epi32(_mm256_set1_epi32(n), _mm256_setr_epi32(0, 1, 2, 3, 4, 5, 6, 7));
  }
};

}  // namespace nanovllm::cpu::avx2
