// SPDX-License-Identifier: MIT
// A clock for tests, without waiting.
#pragma once

#include <atomic>
#include <condition_variable>
#include <mutex>
#include <thread>

#include "base/clock.h"

namespace mnemon {

// A clock that a test moves. Safe for concurrent use.
class FakeClock final : public Clock {
 public:
  std::chrono::steady_clock::time_point Now() const override {
    PauseHere();
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

  // Makes the `nth` read of Now from here on, by any thread but this one, wait for
  // Resume: that thread then continues after what the test does meanwhile.
  void PauseAt(int nth) {
    std::lock_guard lock(mutex_);
    spared_ = std::this_thread::get_id();
    reads_left_ = nth;
    paused_ = false;
  }
  // False if no thread got there in time.
  bool AwaitPaused(std::chrono::milliseconds timeout) {
    std::unique_lock lock(mutex_);
    return changed_.wait_for(lock, timeout, [&] { return paused_; });
  }
  void Resume() {
    std::lock_guard lock(mutex_);
    reads_left_ = 0;
    paused_ = false;
    changed_.notify_all();
  }

 private:
  void PauseHere() const {
    std::unique_lock lock(mutex_);
    if (reads_left_ == 0 || std::this_thread::get_id() == spared_) return;
    if (--reads_left_ > 0) return;
    paused_ = true;
    changed_.notify_all();
    changed_.wait(lock, [&] { return !paused_; });
  }

  std::atomic<int64_t> now_ms_{1'000'000};
  std::atomic<int64_t> wall_ms_{1'700'000'000'000};
  mutable std::mutex mutex_;
  mutable std::condition_variable changed_;
  std::thread::id spared_;       // guarded by mutex_
  mutable int reads_left_ = 0;   // until one pauses; guarded by mutex_
  mutable bool paused_ = false;  // guarded by mutex_
};

}  // namespace mnemon
