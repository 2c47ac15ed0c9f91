// SPDX-License-Identifier: MIT
#include "tests/fakes/drawn_floats.h"

#include <algorithm>
#include <cmath>
#include <random>

namespace mnemon {

std::vector<float> Drawn(int64_t count, uint32_t seed, float size) {
  std::minstd_rand random(seed * 2654435761u + 1);
  std::uniform_real_distribution<float> value(-size, size);
  std::vector<float> floats(static_cast<size_t>(count));
  for (float& f : floats) f = value(random);
  return floats;
}

float Difference(const std::vector<float>& a, const std::vector<float>& b) {
  if (a.size() != b.size()) return HUGE_VALF;
  float most = 0, size = 0;
  for (size_t i = 0; i < a.size(); ++i) {
    const float away = std::abs(a[i] - b[i]);
    most = std::max(most, std::isnan(away) ? HUGE_VALF : away);
    size = std::max(size, std::abs(b[i]));
  }
  return most / (1 + size);
}

}  // namespace mnemon
