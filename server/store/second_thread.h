// SPDX-License-Identifier: MIT
// A thread that runs one function at a time beside its caller's.
#pragma once

#include <condition_variable>
#include <functional>
#include <mutex>
#include <thread>
#include <utility>

namespace mnemon {

// One caller at a time. The constructor throws std::system_error when there is no
// thread.
class SecondThread {
 public:
  // Runs `first` here and `second` on the thread; returns after both. Neither throws.
  template <class First>
  void RunBoth(const First& first, std::function<void()> second) {
    {
      std::lock_guard lock(mutex_);
      work_ = std::move(second);
    }
    changed_.notify_all();
    first();
    std::unique_lock lock(mutex_);
    changed_.wait(lock, [&] { return work_ == nullptr; });
  }

 private:
  void Run(const std::stop_token& stop) {
    std::unique_lock lock(mutex_);
    while (changed_.wait(lock, stop, [&] { return work_ != nullptr; })) {
      lock.unlock();
      work_();
      lock.lock();
      work_ = nullptr;
      changed_.notify_all();
    }
  }

  std::mutex mutex_;  // guards work_
  std::condition_variable_any changed_;
  std::function<void()> work_;  // null: none
  std::jthread thread_{[this](const std::stop_token& stop) { Run(stop); }};
};

}  // namespace mnemon
