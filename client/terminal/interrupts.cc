// SPDX-License-Identifier: MIT
#include "client/terminal/interrupts.h"

#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <unistd.h>

#include <utility>

#include "base/check.h"

namespace mnemon::client {

Interrupts::Interrupts() {
  MNEMON_CHECK(pipe2(fds_, O_CLOEXEC) == 0);
  thread_ = std::thread([this] { Listen(); });
}

Interrupts::~Interrupts() {
  {
    std::lock_guard lock(mutex_);
    ending_ = true;
  }
  // NOLINTNEXTLINE(bugprone-bad-signal-to-kill-thread): it is waited for.
  pthread_kill(thread_.native_handle(), SIGTERM);
  thread_.join();
  close(fds_[0]);
  close(fds_[1]);
}

void Interrupts::SetAction(std::function<void()> action) {
  std::unique_lock lock(mutex_);
  acted_.wait(lock, [this] { return !acting_; });
  action_ = std::move(action);
}

int Interrupts::signal() const {
  std::lock_guard lock(mutex_);
  return signal_;
}

bool Interrupts::terminated() const {
  std::lock_guard lock(mutex_);
  return signal_ != 0 && signal_ != SIGINT;
}

void Interrupts::Reset() {
  std::unique_lock lock(mutex_);
  acted_.wait(lock, [this] { return !acting_; });
  if (signal_ != SIGINT) return;
  signal_ = 0;
  char byte;
  MNEMON_CHECK(read(fds_[0], &byte, 1) == 1);
}

void Interrupts::Listen() {
  while (true) {
    const int signal = waiter_.Wait();
    std::function<void()> action;
    {
      std::lock_guard lock(mutex_);
      if (ending_) return;
      // An empty pipe always takes one byte.
      if (signal_ == 0) MNEMON_CHECK(write(fds_[1], "s", 1) == 1);
      if (signal_ == 0 || signal_ == SIGINT) signal_ = signal;
      action = action_;
      acting_ = true;
    }
    if (action) action();
    {
      std::lock_guard lock(mutex_);
      acting_ = false;
    }
    acted_.notify_all();
  }
}

}  // namespace mnemon::client
