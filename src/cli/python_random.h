// The random integers that Python's module `random` gives for a seed, so that a benchmark runs on the same prompts as
// the Python program that defined it. Mersenne Twister MT19937 (Matsumoto & Nishimura 1998,
// doi:10.1145/272991.272995), seeded by an array of 32-bit words.
#pragma once

#include <array>
#include <cstdint>

namespace nanovllm::cli {

class PythonRandom {
 public:
  explicit PythonRandom(uint64_t seed);  // random.seed(seed)

  uint32_t next();                         // random.getrandbits(32)
  int randint(int smallest, int largest);  // random.randint(smallest, largest); smallest <= largest

 private:
  static constexpr int kWords = 624, kOffset = 397;

  std::array<uint32_t, kWords> state_;
  int next_ = kWords;  // word of the state to give out
};

}  // namespace nanovllm::cli
