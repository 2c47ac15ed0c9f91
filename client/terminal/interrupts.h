// SPDX-License-Identifier: MIT
// Handling of SIGINT, SIGTERM and SIGHUP in a command that streams.
#pragma once

#include <condition_variable>
#include <functional>
#include <mutex>
#include <thread>

#include "base/process/process.h"

namespace mnemon::client {

// Receives these signals of the process and handles them on a thread of its own. At
// most one, created before any other thread is started.
class Interrupts {
 public:
  Interrupts();
  ~Interrupts();
  Interrupts(const Interrupts&) = delete;
  Interrupts& operator=(const Interrupts&) = delete;

  // Sets the action that this thread calls for every further signal; null = none.
  // SetAction and Reset wait for a running action, so that it cannot affect what comes
  // next.
  void SetAction(std::function<void()> action);
  // The signal that has arrived since the last Reset, 0 = none; of several, the first
  // that is not SIGINT. Reset clears only SIGINT: the others end the command.
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
  bool acting_ = false;           // guarded by mutex_; the action is running
  bool ending_ = false;           // guarded by mutex_
  std::condition_variable acted_;
  std::thread thread_;  // last, since it uses all members
};

}  // namespace mnemon::client
