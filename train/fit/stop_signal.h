// SPDX-License-Identifier: MIT
// Stops a long run on a signal.
#pragma once

#include <atomic>
#include <thread>

#include "base/process/process.h"

namespace mnemon {

// Watches for Ctrl-C and SIGTERM. The first sets requested(), the second ends the
// process at once with exit code 130.
class StopSignal {
 public:
  StopSignal();
  ~StopSignal();
  StopSignal(const StopSignal&) = delete;
  StopSignal& operator=(const StopSignal&) = delete;

  bool requested() const { return requested_.load(std::memory_order_relaxed); }

 private:
  void Watch();

  SignalWaiter waiter_;
  std::atomic<bool> requested_{false};
  std::atomic<bool> done_{false};
  std::thread watcher_;
};

}  // namespace mnemon
