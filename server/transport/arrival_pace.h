// SPDX-License-Identifier: MIT
// Whether the bytes of a request arrive at a pace at which its connection keeps its
// place before silent ones.
#pragma once

#include <atomic>
#include <chrono>
#include <cstdint>

namespace mnemon {

class ArrivalPace {
 public:
  using Time = std::chrono::steady_clock::time_point;
  // Of a request, at least so many within each kPeriod.
  static constexpr int64_t kBytes = 64;
  static constexpr std::chrono::milliseconds kPeriod{1000};

  // `total` bytes have come up to `now`. By one thread.
  void Note(int64_t total, Time now) {
    if (total - noted_ < kBytes) return;
    noted_ = total;
    arrived_ = now.time_since_epoch().count();
  }
  // Safe for concurrent use. As of the last Note, which may be late by `slack`.
  bool Kept(Time now, std::chrono::milliseconds slack = {}) const {
    const Time::rep arrived = arrived_;
    return arrived != kNever && now - Time(Time::duration(arrived)) < kPeriod + slack;
  }

 private:
  static constexpr Time::rep kNever = INT64_MIN;
  int64_t noted_ = 0;  // owned by the thread that notes
  std::atomic<Time::rep> arrived_ = kNever;
};

}  // namespace mnemon
