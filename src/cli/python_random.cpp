#include "cli/python_random.h"

#include <algorithm>
#include <bit>

namespace nanovllm::cli {

PythonRandom::PythonRandom(uint64_t seed) {
  const auto fill = [this](uint32_t first) {
    state_[0] = first;
    for (uint32_t i = 1; i < kWords; ++i)
      state_[i] = 1812433253u * (state_[i - 1] ^ (state_[i - 1] >> 30)) + i;
  };
  const uint32_t key[2] = {uint32_t(seed), uint32_t(seed >> 32)};
  const uint32_t key_length = key[1] == 0 ? 1 : 2;
  fill(19650218);
  uint32_t i = 1;
  const auto advance = [&] {
    if (++i < kWords) return;
    state_[0] = state_[kWords - 1];
    i = 1;
  };
  const auto mixed = [&](uint32_t factor) {
    return state_[i] ^ ((state_[i - 1] ^ (state_[i - 1] >> 30)) * factor);
  };
  for (uint32_t k = 0; k < kWords; ++k, advance())
    state_[i] = mixed(1664525) + key[k % key_length] + k % key_length;
  for (uint32_t k = 1; k < kWords; ++k, advance()) state_[i] = mixed(1566083941) - i;
  state_[0] = 0x80000000;
}

uint32_t PythonRandom::next() {
  if (next_ == kWords) {
    for (int i = 0; i < kWords; ++i) {
      const uint32_t bits =
          (state_[size_t(i)] & 0x80000000) | (state_[size_t((i + 1) % kWords)] & 0x7FFFFFFF);
      state_[size_t(i)] =
          state_[size_t((i + kOffset) % kWords)] ^ (bits >> 1) ^ ((bits & 1) ? 0x9908B0DF : 0);
    }
    next_ = 0;
  }
  uint32_t y = state_[size_t(next_++)];
  y ^= y >> 11;
  y ^= (y << 7) & 0x9D2C5680;
  y ^= (y << 15) & 0xEFC60000;
  return y ^ (y >> 18);
}

int PythonRandom::randint(int smallest, int largest) {
  const uint32_t count = uint32_t(largest) - uint32_t(smallest) + 1;
  const int bits = std::bit_width(count);
  uint32_t value;
  do value = next() >> (32 - bits);
  while (value >= count);
  return int(uint32_t(smallest) + value);
}

}  // namespace nanovllm::cli
