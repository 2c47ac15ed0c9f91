// SPDX-License-Identifier: MIT
#include "client/stall_watch.h"

namespace mnemon::client {

StallWatch::StallWatch(grpc::ClientContext& call, std::chrono::milliseconds limit)
    : call_(call), limit_(limit), thread_([this] { Watch(); }) {}

StallWatch::~StallWatch() {
  {
    std::lock_guard lock(mutex_);
    over_ = true;
  }
  changed_.notify_one();
  thread_.join();
}

bool StallWatch::stalled() const {
  std::lock_guard lock(mutex_);
  return stalled_;
}

void StallWatch::Begin() {
  {
    std::lock_guard lock(mutex_);
    deadline_ = std::chrono::steady_clock::now() + limit_;
  }
  changed_.notify_one();
}

void StallWatch::End() {
  std::lock_guard lock(mutex_);
  deadline_.reset();
}

void StallWatch::Watch() {
  std::unique_lock lock(mutex_);
  while (!over_ && !stalled_) {
    if (!deadline_) {
      changed_.wait(lock);
    } else if (std::chrono::steady_clock::now() < *deadline_) {
      changed_.wait_until(lock, *deadline_);
    } else {
      stalled_ = true;
    }
  }
  if (stalled_) call_.TryCancel();
}

}  // namespace mnemon::client
