// SPDX-License-Identifier: MIT
// A thread that does its work in order and as late as it may: the time of a device.
#pragma once

#include <condition_variable>
#include <cstdint>
#include <deque>
#include <functional>
#include <mutex>
#include <thread>

namespace mnemon {

// Threads: one user, which gives and awaits.
class LateThread {
 public:
  LateThread();
  // What was not done by now is dropped.
  ~LateThread();

  // Appends `work` and returns its number. Unless it is `due`, it begins when it or a
  // later one is due or awaited.
  int64_t Give(std::function<void()> work, bool due);
  // Blocks until all up to `number` is done.
  void Await(int64_t number);
  void AwaitAll();

 private:
  void Run();

  std::mutex mutex_;
  std::condition_variable changed_;
  std::deque<std::function<void()>> work_;  // guarded by mutex_, as all numbers below
  int64_t given_ = 0;
  int64_t due_ = 0;
  int64_t done_ = 0;
  bool stopping_ = false;
  std::thread thread_;
};

}  // namespace mnemon
