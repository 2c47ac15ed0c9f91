// SPDX-License-Identifier: MIT
#include "server/rpc/open_calls.h"

#include <algorithm>
#include <utility>
#include <vector>

namespace mnemon {

int64_t OpenCalls::Add(Stop stop) {
  std::lock_guard lock(mutex_);
  calls_.emplace(next_id_, std::move(stop));
  return next_id_++;
}

void OpenCalls::Remove(int64_t id) {
  std::lock_guard lock(mutex_);
  calls_.erase(id);
  // Under the lock: after WaitEmpty has returned, this object may be destroyed.
  if (calls_.empty()) changed_.notify_all();
}

void OpenCalls::WaitEmpty(std::chrono::steady_clock::time_point deadline) {
  std::unique_lock lock(mutex_);
  changed_.wait_until(lock, deadline, [this] { return calls_.empty(); });
}

void OpenCalls::WaitEmpty() {
  std::unique_lock lock(mutex_);
  while (!calls_.empty() && std::chrono::steady_clock::now() < deadline_) {
    changed_.wait_until(lock, deadline_);
  }
}

void OpenCalls::LowerDeadline(std::chrono::steady_clock::time_point deadline) {
  std::lock_guard lock(mutex_);
  deadline_ = std::min(deadline_, deadline);
  changed_.notify_all();
}

void OpenCalls::StopAll(const absl::Status& status) {
  std::vector<Stop> stops;
  {
    std::lock_guard lock(mutex_);
    for (const auto& [id, stop] : calls_) stops.push_back(stop);
  }
  for (const Stop& stop : stops) stop(status);
}

}  // namespace mnemon
