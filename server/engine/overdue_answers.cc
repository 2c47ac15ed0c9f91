// SPDX-License-Identifier: MIT
#include "server/engine/overdue_answers.h"

#include <chrono>
#include <new>

namespace mnemon {
namespace {

// Between two looks for what has waited too long.
constexpr std::chrono::milliseconds kOverdueLook{500};

}  // namespace

void OverdueAnswers::Start() {
  thread_ = std::thread([this] { Run(); });
}

void OverdueAnswers::Stop() {
  {
    std::lock_guard lock(mutex_);
    stopped_ = true;
  }
  changed_.notify_all();
  if (thread_.joinable()) thread_.join();
}

void OverdueAnswers::Run() {
  std::unique_lock lock(mutex_);
  while (!stopped_) {
    lock.unlock();
    try {
      waiters_.EndOverdue();
    } catch (const std::bad_alloc&) {
      // Those that are left are told in the next turn.
    }
    lock.lock();
    if (stopped_) return;
    changed_.wait_for(lock, kOverdueLook);
  }
}

}  // namespace mnemon
