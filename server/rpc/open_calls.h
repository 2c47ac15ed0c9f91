// SPDX-License-Identifier: MIT
// The set of open streams, for which a shutdown waits and which it then ends.
#pragma once

#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <functional>
#include <map>
#include <mutex>

#include "absl/status/status.h"

namespace mnemon {

// Safe for concurrent use.
class OpenCalls {
 public:
  using Stop = std::function<void(const absl::Status&)>;

  // `stop` ends the call soon and does not block; it may be called after Remove.
  int64_t Add(Stop stop);
  void Remove(int64_t id);

  // Waits until no call is open or the deadline has passed.
  void WaitEmpty(std::chrono::steady_clock::time_point deadline);
  // As above, for the deadline of LowerDeadline.
  void WaitEmpty();
  // Brings the deadline of WaitEmpty() forward, also of one that waits; never back.
  void LowerDeadline(std::chrono::steady_clock::time_point deadline);
  void StopAll(const absl::Status& status);

 private:
  std::mutex mutex_;
  std::condition_variable changed_;
  std::map<int64_t, Stop> calls_;  // guarded by mutex_
  int64_t next_id_ = 0;            // guarded by mutex_
  // guarded by mutex_
  std::chrono::steady_clock::time_point deadline_ =
      std::chrono::steady_clock::time_point::max();
};

}  // namespace mnemon
