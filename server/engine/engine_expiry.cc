// SPDX-License-Identifier: MIT
// Sessions whose time has come, and answers whose bound is over.
#include <new>
#include <utility>

#include "server/engine/engine.h"

namespace mnemon {
namespace {

// Between two looks for what has waited too long.
constexpr std::chrono::milliseconds kOverdueLook{500};

}  // namespace

bool Engine::RemoveExpired() {
  for (size_t count = 0; count < kExpiredPerCall;) {
    auto removed = context_->directory.RemoveExpired();
    if (removed.empty()) return false;
    count += removed.size();
    for (auto& session : removed) Forget(std::move(session));
  }
  return true;
}

absl::Status Engine::Expire(const std::string& id) {
  if (id.empty()) return absl::OkStatus();
  const absl::Status woken = context_->directory.WakeExpired(id);
  // Found again with its damage, until somebody deletes it.
  if (absl::IsDataLoss(woken)) persistence_->GiveUp(id, woken);
  if (auto expired = context_->directory.RemoveIfExpired(id)) {
    Forget(std::move(expired));
  }
  return woken;
}

void Engine::Forget(std::shared_ptr<Session> expired) {
  ModelRunner& runner = *runners_[expired->model].decoder;
  runner.Forget(std::move(expired));
  Report(SessionEvent::kExpire);
}

bool Engine::stopping() const {
  std::lock_guard lock(mutex_);
  return stopping_;
}

void Engine::EndOverdue() {
  std::unique_lock lock(mutex_);
  while (!stopped_) {
    lock.unlock();
    try {
      context_->waiters.EndOverdue();
    } catch (const std::bad_alloc&) {
      // Those that are left are told in the next turn.
    }
    lock.lock();
    if (stopped_) return;
    all_stopped_.wait_for(lock, kOverdueLook);
  }
}

void Engine::ExpireSessions() {
  std::unique_lock lock(mutex_);
  while (!stopping_) {
    lock.unlock();
    try {
      while (RemoveExpired() && !stopping()) {
      }
      for (const std::string& id : context_->directory.FindExpiredAsleep()) {
        if (stopping()) break;
        // One that the store does not give now is found again later.
        static_cast<void>(Expire(id));
      }
    } catch (const std::bad_alloc&) {
      // Those that are left go later.
    }
    const auto next = context_->directory.NextExpiry();
    const auto now = context_->options.clock->Now();
    lock.lock();
    if (stopping_) return;
    const auto left = next ? *next - now : std::chrono::nanoseconds::max();
    if (left.count() > 0) changed_.wait_for(lock, SleepFor(left));
  }
}

}  // namespace mnemon
