// SPDX-License-Identifier: MIT
// Handling of SIGINT, SIGTERM and SIGHUP in a command that streams.
#pragma once

#include <functional>
#include <mutex>
#include <thread>

#include "base/process.h"

namespace mnemon::client {

// Takes these signals of the process and handles them on a thread of its own. At most
// one, created before any other thread is started.
class Interrupts {
 public:
  Interrupts();
  ~Interrupts();
  Interrupts(const Interrupts&) = delete;
  Interrupts& operator=(const Interrupts&) = delete;

  // Called on that thread for every signal from now on; null = nothing.
  void SetAction(std::function<void()> action);
  // The signal that has arrived since the last Reset, 0 = none; of several, the first
  // that is not SIGINT. Reset clears SIGINT alone: the others end the command.
  int signal() const;
  bool terminated() const;
  void Reset();
  // Readable while signal() is not 0.
  int fd() const { return fds_[0]; }

 private:
  void Listen();

  SignalWaiter waiter_;
  int fds_[2];
  mutable std::mutex mutex_;
  std::function<void()> action_;  // guarded by mutex_
  int signal_ = 0;                // guarded by mutex_; not 0: a byte is in the pipe
  bool ending_ = false;           // guarded by mutex_
  std::thread thread_;            // last: uses all of the above
};

}  // namespace mnemon::client
