// SPDX-License-Identifier: MIT
#include "server/rpc/open_calls.h"

#include <algorithm>
#include <utility>

namespace mnemon {
namespace {

// Claimed at once; ending one takes microseconds.
constexpr size_t kMaxClaimed = 1024;

}  // namespace

std::shared_ptr<OpenCall> OpenCalls::Add(OpenCall::End stop, OpenCall::End cancel) {
  auto call = std::make_shared<OpenCall>(std::move(stop), std::move(cancel));
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

void OpenCalls::EndIdle(Time limit, const absl::Status& status) {
  EndUnopened(limit, status);
  for (const auto& call : Claim(&OpenCall::ClaimUncredited, limit)) call->Stop(status);
  for (const auto& call : Claim(&OpenCall::ClaimBlocked, limit)) {
    call->Stop(status);
    call->Cancel(status);
  }
}

void OpenCalls::EndUnopened(Time limit, const absl::Status& status) {
  for (const auto& call : Claim(&OpenCall::ClaimUnopened, limit)) call->Stop(status);
}

std::vector<std::shared_ptr<OpenCall>> OpenCalls::Claim(
    bool (OpenCall::*claim)(Time limit), Time limit) {
  std::vector<std::shared_ptr<OpenCall>> claimed;
  std::lock_guard lock(mutex_);
  for (const std::shared_ptr<OpenCall>& call : calls_) {
    if (claimed.size() == kMaxClaimed) break;
    if (((*call).*claim)(limit)) claimed.push_back(call);
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

void OpenCalls::LowerDeadline(Time deadline) {
  std::lock_guard lock(mutex_);
  deadline_ = std::min(deadline_, deadline);
  changed_.notify_all();
}

std::vector<std::shared_ptr<OpenCall>> OpenCalls::All() {
  std::lock_guard lock(mutex_);
  return {calls_.begin(), calls_.end()};
}

void OpenCalls::StopAll(const absl::Status& status) {
  {
    std::lock_guard lock(mutex_);
    stopped_ = status;
  }
  for (const auto& call : All()) call->Stop(status);
}

void OpenCalls::CancelAll(const absl::Status& status) {
  for (const auto& call : All()) call->Cancel(status);
}

}  // namespace mnemon
