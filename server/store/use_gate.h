// SPDX-License-Identifier: MIT
// A door that many may be behind at once, or one alone. Whoever is behind it may enter
// again, also while another waits to be alone; std::shared_mutex does not allow that.
#pragma once

#include <condition_variable>
#include <cstdint>
#include <mutex>

namespace mnemon {

class UseGate {
 public:
  // Behind the gate together with others, as long as it exists.
  class Use {
   public:
    explicit Use(UseGate& gate) : gate_(gate) {
      std::unique_lock lock(gate_.mutex_);
      gate_.changed_.wait(lock, [&] { return !gate_.alone_; });
      ++gate_.users_;
    }
    ~Use() {
      std::lock_guard lock(gate_.mutex_);
      if (--gate_.users_ == 0) gate_.changed_.notify_all();
    }
    Use(const Use&) = delete;
    Use& operator=(const Use&) = delete;

   private:
    UseGate& gate_;
  };

  // Behind the gate alone. REQUIRES: this thread is not behind it.
  class Alone {
   public:
    explicit Alone(UseGate& gate) : gate_(gate) {
      std::unique_lock lock(gate_.mutex_);
      gate_.changed_.wait(lock, [&] { return !gate_.alone_ && gate_.users_ == 0; });
      gate_.alone_ = true;
    }
    ~Alone() {
      std::lock_guard lock(gate_.mutex_);
      gate_.alone_ = false;
      gate_.changed_.notify_all();
    }
    Alone(const Alone&) = delete;
    Alone& operator=(const Alone&) = delete;

   private:
    UseGate& gate_;
  };

 private:
  std::mutex mutex_;  // guards what follows
  std::condition_variable changed_;
  int64_t users_ = 0;
  bool alone_ = false;
};

}  // namespace mnemon
