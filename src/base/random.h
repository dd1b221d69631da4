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
Philox4x32 philox(uint64_t key, const Philox4x32& counter);

// A seed from the operating system, for requests that name none.
uint64_t random_seed();

}  // namespace nanovllm
