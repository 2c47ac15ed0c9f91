// SPDX-License-Identifier: MIT
#include "server/service/open_calls.h"

#include <algorithm>

namespace mnemon {
namespace {

// Claimed at once; ending one takes microseconds.
constexpr size_t kMaxClaimed = 1024;

}  // namespace

std::shared_ptr<OpenCall> OpenCalls::Add(OpenCall::End stop, OpenCall::End cancel,
                                         std::shared_ptr<const Connection> connection) {
  auto call = std::make_shared<OpenCall>(std::move(stop), std::move(cancel), clock_,
                                         std::move(connection));
  std::optional<absl::Status> stopped;
  {
    std::lock_guard lock(mutex_);
    calls_.insert(call);
    stopped = stopped_;
  }
  if (stopped) call->Stop(*stopped);
  return call;
}

void OpenCalls::Remove(const std::shared_ptr<OpenCall>& call) {
  std::lock_guard lock(mutex_);
  calls_.erase(call);
  // Under the lock: after WaitEmpty has returned, this object may be destroyed.
  if (calls_.empty()) changed_.notify_all();
}

void OpenCalls::EndIdle(std::chrono::nanoseconds time, const absl::Status& status) {
  for (const auto& call : Claim(&OpenCall::ClaimUnopened, time)) call->Stop(status);
  for (const auto& call : Claim(&OpenCall::ClaimUncredited, time)) call->Stop(status);
  for (const auto& call : Claim(&OpenCall::ClaimBlocked, time)) {
    call->Stop(status);
    call->Cancel(status);
  }
}

void OpenCalls::EndUnopened(const absl::Status& status) {
  constexpr std::chrono::nanoseconds kAny{0};
  for (const auto& call : Claim(&OpenCall::ClaimUnopened, kAny)) call->Stop(status);
}

std::vector<std::shared_ptr<OpenCall>> OpenCalls::Claim(
    bool (OpenCall::*claim)(std::chrono::nanoseconds time),
    std::chrono::nanoseconds time) {
  std::vector<std::shared_ptr<OpenCall>> claimed;
  std::lock_guard lock(mutex_);
  for (const std::shared_ptr<OpenCall>& call : calls_) {
    if (claimed.size() == kMaxClaimed) break;
    if (((*call).*claim)(time)) claimed.push_back(call);
  }
  return claimed;
}

void OpenCalls::WaitEmpty(Time deadline) {
  std::unique_lock lock(mutex_);
  changed_.wait_until(lock, deadline, [this] { return calls_.empty(); });
}

bool OpenCalls::WaitDrained(Time pause) {
  std::unique_lock lock(mutex_);
  while (!calls_.empty()) {
    const Time now = std::chrono::steady_clock::now();
    if (now >= deadline_) break;
    if (now >= pause) return false;
    changed_.wait_until(lock, std::min(pause, deadline_));
  }
  return true;
}

size_t OpenCalls::size() const {
  std::lock_guard lock(mutex_);
  return calls_.size();
}

OpenCalls::Time OpenCalls::deadline() const {
  std::lock_guard lock(mutex_);
  return deadline_;
}

void OpenCalls::LowerDeadline(Time deadline) {
  std::lock_guard lock(mutex_);
  deadline_ = std::min(deadline_, deadline);
  changed_.notify_all();
}

std::vector<std::shared_ptr<OpenCall>> OpenCalls::All() {
  std::lock_guard lock(mutex_);
  return {calls_.begin(), calls_.end()};
}

size_t OpenCalls::StopAll(const absl::Status& status) {
  {
    std::lock_guard lock(mutex_);
    stopped_ = status;
  }
  const auto calls = All();
  for (const auto& call : calls) call->Stop(status);
  return calls.size();
}

void OpenCalls::CancelAll(const absl::Status& status) {
  for (const auto& call : All()) call->Cancel(status);
}

}  // namespace mnemon
