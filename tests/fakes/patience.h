// SPDX-License-Identifier: MIT
// Time limits of tests, and waiting.
#pragma once

#include <chrono>
#include <thread>

namespace mnemon {

// Limit for actions of another thread or process: only a hang takes longer, on any
// machine and beside any other load.
inline constexpr std::chrono::seconds kPatience{300};

// Polls `condition()` every millisecond, for changes that other threads or processes do
// not announce. Returns false if it does not hold after `most`.
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
