// Counter-based random numbers: Philox4x32-10 (Salmon, Moraes, Dror, Shaw 2011, "Parallel Random Numbers: As
// Easy as 1, 2, 3", table 2).
//
// The value is a function of key and counter alone, so a draw depends on what it is for (seed, sample,
// position), never on how many draws came before it. Plain scalar arithmetic on uint32: the same on every
// processor and on the GPU.
#pragma once

#include <array>
#include <cstdint>

namespace nanovllm {

using Philox4x32 = std::array<uint32_t, 4>;

// Four independent uniform 32-bit numbers for this (key, counter).
constexpr Philox4x32 philox(uint64_t key, const Philox4x32& counter) {
  uint32_t k0 = uint32_t(key), k1 = uint32_t(key >> 32);
  Philox4x32 c = counter;
  for (int round = 0; round < 10; ++round) {
    const uint64_t p0 = uint64_t{0xD2511F53} * c[0], p1 = uint64_t{0xCD9E8D57} * c[2];
    c = {uint32_t(p1 >> 32) ^ c[1] ^ k0, uint32_t(p1), uint32_t(p0 >> 32) ^ c[3] ^ k1, uint32_t(p0)};
    k0 += 0x9E3779B9;
    k1 += 0xBB67AE85;
  }
  return c;
}

// A seed from the operating system, for requests that name none.
uint64_t random_seed();

}  // namespace nanovllm
