// SPDX-License-Identifier: MIT
#include "client/load/arrivals.h"

#include <cmath>

namespace mnemon::client {

double Arrivals::Next() {
  // Uniform in [0, 1) from 53 bits, then the inverse of the exponential distribution:
  // std::exponential_distribution differs between libraries.
  const double uniform = static_cast<double>(random_() >> 11) * 0x1p-53;
  at_ -= std::log1p(-uniform) / rate_;
  return at_;
}

}  // namespace mnemon::client
