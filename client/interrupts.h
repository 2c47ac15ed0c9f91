// SPDX-License-Identifier: MIT
// Ctrl-C and SIGTERM for a command that streams.
#pragma once

#include <functional>
#include <mutex>
#include <thread>

#include "base/process.h"

namespace mnemon::client {

// Takes SIGINT and SIGTERM away from the process while it lives. Create before any
// other thread is started, at most one.
class Interrupts {
 public:
  Interrupts();
  ~Interrupts();
  Interrupts(const Interrupts&) = delete;
  Interrupts& operator=(const Interrupts&) = delete;

  // Called on a thread of its own for every signal from now on; null = nothing.
  void SetAction(std::function<void()> action);
  // A signal came since the last Reset; SIGTERM stays.
  bool interrupted() const;
  bool terminated() const;
  void Reset();
  // Readable once SIGTERM came.
  int terminated_fd() const { return fds_[0]; }

 private:
  void Listen();

  SignalWaiter waiter_;
  int fds_[2];
  mutable std::mutex mutex_;
  std::function<void()> action_;  // guarded by mutex_
  bool interrupted_ = false;      // guarded by mutex_
  bool terminated_ = false;       // guarded by mutex_
  bool ending_ = false;           // guarded by mutex_
  std::thread thread_;            // last: uses all of the above
};

}  // namespace mnemon::client
