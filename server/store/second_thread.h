// SPDX-License-Identifier: MIT
// A thread that runs one function at a time beside the one that asks for it.
#pragma once

#include <condition_variable>
#include <functional>
#include <mutex>
#include <thread>
#include <utility>

namespace mnemon {

// One caller at a time.
class SecondThread {
 public:
  // Throws std::system_error when there is no thread.
  SecondThread() : thread_([this] { Run(); }) {}
  ~SecondThread() {
    {
      std::lock_guard lock(mutex_);
      stopping_ = true;
    }
    changed_.notify_all();
    thread_.join();
  }

  // `first` on this thread while `second` runs on the other; returns after both.
  // Neither throws.
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
  void Run() {
    std::unique_lock lock(mutex_);
    while (true) {
      changed_.wait(lock, [&] { return stopping_ || work_ != nullptr; });
      if (work_ == nullptr) return;
      lock.unlock();
      work_();
      lock.lock();
      work_ = nullptr;
      changed_.notify_all();
    }
  }

  std::mutex mutex_;  // guards what follows
  std::condition_variable changed_;
  std::function<void()> work_;
  bool stopping_ = false;
  std::thread thread_;
};

}  // namespace mnemon
