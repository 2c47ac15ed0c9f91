// SPDX-License-Identifier: MIT
// The stop of a long run by a signal.
#pragma once

#include <atomic>
#include <thread>

#include "base/process.h"

namespace mnemon {

// Ctrl-C and SIGTERM for a long run: the first asks it to stop, the second ends the
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
