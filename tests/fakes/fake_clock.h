// SPDX-License-Identifier: MIT
// A clock for tests, without waiting.
#pragma once

#include <atomic>

#include "base/clock.h"

namespace mnemon {

// A clock that a test moves. Safe for concurrent use.
class FakeClock final : public Clock {
 public:
  std::chrono::steady_clock::time_point Now() const override {
    return std::chrono::steady_clock::time_point(std::chrono::milliseconds(now_ms_));
  }
  std::chrono::system_clock::time_point WallNow() const override {
    return std::chrono::system_clock::time_point(std::chrono::milliseconds(wall_ms_));
  }

  void Advance(std::chrono::milliseconds by) {
    now_ms_ += by.count();
    wall_ms_ += by.count();
  }
  // Sets the wall clock only, as an administrator would.
  void JumpWall(std::chrono::milliseconds by) { wall_ms_ += by.count(); }

 private:
  std::atomic<int64_t> now_ms_{1'000'000};
  std::atomic<int64_t> wall_ms_{1'700'000'000'000};
};

}  // namespace mnemon
