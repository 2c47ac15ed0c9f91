// SPDX-License-Identifier: MIT
// The set of open calls, for which a shutdown waits and which it then ends; calls whose
// peer neither sends nor reads end earlier.
#pragma once

#include <chrono>
#include <condition_variable>
#include <cstddef>
#include <memory>
#include <mutex>
#include <optional>
#include <set>
#include <vector>

#include "absl/status/status.h"
#include "server/service/open_call.h"

namespace mnemon {

// Safe for concurrent use. Ends calls with no lock held.
class OpenCalls {
 public:
  using Time = OpenCall::Time;

  // Waits of calls take the time of `clock`, which outlives all calls.
  explicit OpenCalls(const Clock& clock) : clock_(clock) {}

  // After StopAll the call is stopped at once. The rest as OpenCall.
  std::shared_ptr<OpenCall> Add(OpenCall::End stop, OpenCall::End cancel,
                                std::shared_ptr<const Connection> connection);
  void Remove(const std::shared_ptr<OpenCall>& call);

  // Ends the calls that have waited so long for a message, for credits, or for the
  // transport. Checks every open call and ends a bounded number of them; a repetition
  // ends the others.
  void EndIdle(std::chrono::nanoseconds time, const absl::Status& status);
  // As above, of those alone that wait for a message, since any time.
  void EndUnopened(const absl::Status& status);

  // Waits until no call is open or the deadline has passed.
  void WaitEmpty(Time deadline);
  // As above, for the deadline of LowerDeadline. False: neither has come until `pause`.
  bool WaitDrained(Time pause);
  size_t size() const;
  Time deadline() const;
  // Brings the deadline of WaitDrained forward, also of one that waits; never back.
  void LowerDeadline(Time deadline);
  // How many it ended.
  size_t StopAll(const absl::Status& status);
  // Breaks off those that are left.
  void CancelAll(const absl::Status& status);

 private:
  std::vector<std::shared_ptr<OpenCall>> All();
  // Those for which `claim` is true, up to a bound.
  std::vector<std::shared_ptr<OpenCall>> Claim(
      bool (OpenCall::*claim)(std::chrono::nanoseconds time),
      std::chrono::nanoseconds time);

  const Clock& clock_;
  mutable std::mutex mutex_;
  std::condition_variable changed_;
  std::set<std::shared_ptr<OpenCall>> calls_;  // guarded by mutex_
  Time deadline_ = Time::max();                // guarded by mutex_
  std::optional<absl::Status> stopped_;        // by StopAll; guarded by mutex_
};

}  // namespace mnemon
