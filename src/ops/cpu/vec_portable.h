// Sixteen float32 lanes in plain C++: the definition of what vec_avx2.h and vec_avx512.h do faster.
//
// The number of lanes is part of every op's definition of a sum, so it is the same on every processor, and
// each operation rounds once (IEEE 754): the three give the same bits.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>

#include "tensor/dtype.h"

namespace nanovllm::cpu::portable {

struct Vec {
  static constexpr int kLinearRows = 2;     // tokens per tile of a product
  static constexpr int kAttentionRows = 4;  // queries per tile of attention

  float lane[16];

  static Vec zero() { return broadcast(0.0f); }
  static Vec broadcast(float x) {
    Vec r;
    for (float& v : r.lane) v = x;
    return r;
  }
  static Vec load(const float* p) { return load_first(p, 16); }
  // The first n lanes from memory, zeros above; nothing past p[n - 1] is touched. n is 1 … 16.
  static Vec load_first(const float* p, int n) {
    Vec r = zero();
    std::memcpy(r.lane, p, size_t(n) * sizeof(float));
    return r;
  }
  void store(float* p) const { store_first(p, 16); }
  void store_first(float* p, int n) const { std::memcpy(p, lane, size_t(n) * sizeof(float)); }

  // A line of 32 bf16 in the order of ops/cpu/panels.h: outputs 0-15 and 16-31.
  static void load_bf16_line(const std::byte* p, Vec& low, Vec& high) {
    for (int i = 0; i < 16; ++i) {
      uint32_t word;
      std::memcpy(&word, p + 4 * i, 4);
      low.lane[i] = std::bit_cast<float>(word << 16);
      high.lane[i] = std::bit_cast<float>(word & 0xFFFF0000u);
    }
  }
  // 16 binary16 values.
  static Vec load_f16(const std::byte* p) {
    Vec r;
    for (int i = 0; i < 16; ++i) {
      uint16_t half;
      std::memcpy(&half, p + 2 * i, 2);
      r.lane[i] = f16_to_float(half);
    }
    return r;
  }

  friend Vec operator+(Vec a, Vec b) {
    for (int i = 0; i < 16; ++i) a.lane[i] += b.lane[i];
    return a;
  }
  friend Vec operator*(Vec a, Vec b) {
    for (int i = 0; i < 16; ++i) a.lane[i] *= b.lane[i];
    return a;
  }
  friend Vec operator/(Vec a, Vec b) {
    for (int i = 0; i < 16; ++i) a.lane[i] /= b.lane[i];
    return a;
  }
  // a b + c, rounded once.
  static Vec fma(Vec a, Vec b, Vec c) {
    for (int i = 0; i < 16; ++i) c.lane[i] = __builtin_fmaf(a.lane[i], b.lane[i], c.lane[i]);
    return c;
  }
};

}  // namespace nanovllm::cpu::portable
