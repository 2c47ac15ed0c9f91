// SPDX-License-Identifier: MIT
#include "base/clock.h"

namespace mnemon {
namespace {

class RealClock final : public Clock {
 public:
  std::chrono::steady_clock::time_point Now() const override {
    return std::chrono::steady_clock::now();
  }
  std::chrono::system_clock::time_point WallNow() const override {
    return std::chrono::system_clock::now();
  }
};

}  // namespace

const Clock& Clock::Real() {
  static const RealClock* clock = new RealClock;
  return *clock;
}

}  // namespace mnemon
