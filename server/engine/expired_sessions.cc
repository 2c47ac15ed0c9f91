// SPDX-License-Identifier: MIT
#include "server/engine/expired_sessions.h"

#include <chrono>
#include <new>
#include <utility>

namespace mnemon {

void ExpiredSessions::Start() {
  thread_ = std::thread([this] { Run(); });
}

void ExpiredSessions::RequestStop() {
  {
    std::lock_guard lock(mutex_);
    stopping_ = true;
  }
  changed_.notify_all();
}

void ExpiredSessions::Join() {
  if (thread_.joinable()) thread_.join();
}

bool ExpiredSessions::RemoveExpired() {
  for (size_t count = 0; count < kPerCall;) {
    auto removed = parts_.context->directory.RemoveExpired();
    if (removed.empty()) return false;
    count += removed.size();
    for (auto& session : removed) Forget(std::move(session));
  }
  return true;
}

absl::Status ExpiredSessions::Expire(const std::string& id) {
  if (id.empty()) return absl::OkStatus();
  SessionDirectory& directory = parts_.context->directory;
  const absl::Status woken = directory.sleep().WakeExpired(id);
  // Found again with its damage, until somebody deletes it.
  if (absl::IsDataLoss(woken)) parts_.persistence->GiveUp(id, woken);
  if (auto expired = directory.RemoveIfExpired(id)) Forget(std::move(expired));
  return woken;
}

void ExpiredSessions::Forget(std::shared_ptr<Session> expired) {
  ModelRunner& runner = *parts_.models.decoder(expired->model);
  runner.Forget(std::move(expired));
  parts_.Report(SessionEvent::kExpire);
}

bool ExpiredSessions::stopping() const {
  std::lock_guard lock(mutex_);
  return stopping_;
}

void ExpiredSessions::Run() {
  const EngineContext& context = *parts_.context;
  std::unique_lock lock(mutex_);
  while (!stopping_) {
    lock.unlock();
    try {
      while (RemoveExpired() && !stopping()) {
      }
      for (const std::string& id : context.directory.sleep().FindExpired()) {
        if (stopping()) break;
        // A session that the store does not give now is found again later.
        static_cast<void>(Expire(id));
      }
    } catch (const std::bad_alloc&) {
      // Those that are left go later.
    }
    const auto next = context.directory.NextExpiry();
    const auto now = context.options.clock->Now();
    lock.lock();
    if (stopping_) return;
    const auto left = next ? *next - now : std::chrono::nanoseconds::max();
    if (left.count() > 0) changed_.wait_for(lock, SleepFor(left));
  }
}

}  // namespace mnemon
