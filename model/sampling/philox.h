// SPDX-License-Identifier: MIT
// Counter-based random numbers: Philox4x32-10 (Salmon, Moraes, Dror, Shaw, "Parallel
// Random Numbers: As Easy as 1, 2, 3", SC 2011).
#pragma once

#include <array>
#include <cstdint>

namespace mnemon {

std::array<uint32_t, 4> Philox4x32(std::array<uint32_t, 4> counter,
                                   std::array<uint32_t, 2> key);

// The 64 random bits for the token at absolute index `index` of a session with `seed`:
// key = seed (low word first), counter = index (low word first, upper two words 0); the
// first two words of the result, low word first.
uint64_t RandomAt(uint64_t seed, uint64_t index);

}  // namespace mnemon
