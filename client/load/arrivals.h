// SPDX-License-Identifier: MIT
// Arrivals of calls at random times: a Poisson process.
#pragma once

#include <cstdint>
#include <random>

namespace mnemon::client {

// The same times for the same rate and seed on every machine. Not safe for concurrent
// use.
class Arrivals {
 public:
  // REQUIRES: `rate`, arrivals per second, is above 0.
  Arrivals(double rate, uint64_t seed) : rate_(rate), random_(seed) {}

  // The next arrival, in seconds from the start. Ascending.
  double Next();

 private:
  const double rate_;
  std::mt19937_64 random_;
  double at_ = 0;
};

}  // namespace mnemon::client
