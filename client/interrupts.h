// SPDX-License-Identifier: MIT
// Handling of SIGINT, SIGTERM and SIGHUP in a command that streams.
#pragma once

#include <functional>
#include <mutex>
#include <thread>

#include "base/process.h"

namespace mnemon::client {

// Takes these signals of the process and handles them on a thread of its own; SIGHUP is
// handled as SIGTERM is. At most one, created before any other thread is started.
class Interrupts {
 public:
  Interrupts();
  ~Interrupts();
  Interrupts(const Interrupts&) = delete;
  Interrupts& operator=(const Interrupts&) = delete;

  // Called on that thread for every signal from now on; null = nothing.
  void SetAction(std::function<void()> action);
  // A signal has arrived since the last Reset; Reset does not clear SIGTERM.
  bool interrupted() const;
  bool terminated() const;
  void Reset();
  // Readable once SIGTERM has arrived.
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
