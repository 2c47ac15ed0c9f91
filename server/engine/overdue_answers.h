// SPDX-License-Identifier: MIT
// The thread that ends what waits too long for an answer.
#pragma once

#include <condition_variable>
#include <mutex>
#include <thread>

#include "server/waiting/waiters.h"

namespace mnemon {

// It never waits for the store, nor for a lock that is held while the store is read. It
// may wait for memory where an answer makes a call go on.
class OverdueAnswers {
 public:
  // `waiters` outlives it.
  explicit OverdueAnswers(Waiters& waiters) : waiters_(waiters) {}

  // Throws std::system_error when there is no thread.
  void Start();
  // Joins the thread, if there is one.
  void Stop();

 private:
  void Run();

  Waiters& waiters_;
  std::thread thread_;
  std::mutex mutex_;  // guards stopped_
  std::condition_variable changed_;
  bool stopped_ = false;
};

}  // namespace mnemon
