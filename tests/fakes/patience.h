// SPDX-License-Identifier: MIT
// How long tests wait, and how.
#pragma once

#include <chrono>
#include <thread>

namespace mnemon {

// For what another thread or process does: longer than that takes on any machine,
// whatever else runs there, so that only what hangs comes to it.
inline constexpr std::chrono::seconds kPatience{300};

// Waits for what another thread or process does without telling this one: asks every
// millisecond whether `condition()` holds. False when that has not come after `most`.
template <class Condition>
bool Eventually(const Condition& condition,
                std::chrono::milliseconds most = kPatience) {
  const auto end = std::chrono::steady_clock::now() + most;
  while (!condition()) {
    if (std::chrono::steady_clock::now() > end) return false;
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
  }
  return true;
}

}  // namespace mnemon
