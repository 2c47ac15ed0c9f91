// SPDX-License-Identifier: MIT
// Random numbers of a run's data. Each is a function of the seed and of what it is for,
// so there is no state to save.
#pragma once

#include <cstdint>
#include <vector>

namespace mnemon {

// Part of the counter, so that no two purposes share a number.
enum class DrawPurpose : uint32_t {
  kOrder = 1,
  kJitter = 2,
  kDropout = 3,
  kDigits = 4,
  kFeatures = 5
};

// 64 random bits.
uint64_t DrawBits(uint64_t seed, uint32_t pass, DrawPurpose purpose, int64_t index);

// Uniform in 0 .. n-1. REQUIRES: n >= 1.
int64_t UniformBelow(int64_t n, uint64_t seed, uint32_t pass, DrawPurpose purpose,
                     int64_t index);

// The numbers 0 .. count-1 in a random order, another in every pass. Owned by one
// thread.
class PassOrder {
 public:
  PassOrder(int64_t count, uint64_t seed);

  int64_t size() const { return static_cast<int64_t>(order_.size()); }
  // Place `place` of pass `pass`; a pass does not depend on those before it.
  int64_t At(int64_t pass, int64_t place);

 private:
  void Shuffle(int64_t pass);

  const uint64_t seed_;
  std::vector<int64_t> order_;  // of pass ordered_for_
  int64_t ordered_for_ = -1;
};

}  // namespace mnemon
