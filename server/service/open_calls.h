// SPDX-License-Identifier: MIT
// Open calls: how to end each, since when it waits for its peer, and the set of all,
// for which a shutdown waits and which it then ends; calls whose peer neither sends nor
// reads end earlier.
#pragma once

#include <atomic>
#include <chrono>
#include <condition_variable>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <set>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "base/clock.h"
#include "server/transport/connection.h"

namespace mnemon {

// Safe for concurrent use: the handler of the call reports its waits, other threads end
// the call.
//
// A wait is the peer's only while it could do something about it: it begins anew where
// the peer has sent what the server has not read yet, or, of what the server sends, has
// acknowledged some in the second half of its time. Both are known of the connection,
// not of the call, so that a wait begins anew only so often.
class OpenCall {
 public:
  using Time = std::chrono::steady_clock::time_point;
  // Called with the status of the end, from any thread and also after the call; does
  // not block.
  using End = std::function<void(const absl::Status&)>;

  static constexpr int kMostRenewals = 10;

  // `stop` ends the call once the transport has taken what the call sends. `cancel`
  // makes the transport drop that. `clock`, of its waits, outlives it. `connection`:
  // null for a call within the process.
  OpenCall(End stop, End cancel, const Clock& clock,
           std::shared_ptr<const Connection> connection)
      : stop_(std::move(stop)),
        cancel_(std::move(cancel)),
        clock_(clock),
        connection_(std::move(connection)) {}

  // The call waits for a message of its peer: its first one, or that of the next turn.
  void AwaitMessage() { BeginOnce(unopened_); }
  void TakeMessage() { unopened_.since = kNotWaiting; }
  // The call waits until its peer lets it send more.
  void AwaitCredits() { BeginOnce(uncredited_); }
  void TakeCredits() { uncredited_.since = kNotWaiting; }
  // The call waits until the transport has taken a message, or until its end, for the
  // status.
  void AwaitTransport() { Begin(blocked_); }
  void ResumeFromTransport() { blocked_.since = kNotWaiting; }

  // Whether this wait has lasted so long, and was not claimed yet. Zero: whatever its
  // peer does.
  bool ClaimUnopened(std::chrono::nanoseconds time) { return Claim(unopened_, time); }
  bool ClaimUncredited(std::chrono::nanoseconds time) {
    return Claim(uncredited_, time);
  }
  bool ClaimBlocked(std::chrono::nanoseconds time) {
    if (connection_ != nullptr) NoteAcknowledged(time);
    return Claim(blocked_, time);
  }

  void Stop(const absl::Status& status) const { stop_(status); }
  void Cancel(const absl::Status& status) const { cancel_(status); }

 private:
  static constexpr Time kNotWaiting = Time::max();
  static constexpr int64_t kUnknown = -1;

  struct Wait {
    std::atomic<Time> since = kNotWaiting;
    std::atomic<int> renewals = 0;
    std::atomic<int64_t> acknowledged = kUnknown;  // bytes, at half of its time
  };

  void Begin(Wait& wait) {
    wait.renewals = 0;
    wait.acknowledged = kUnknown;
    wait.since = clock_.Now();
  }
  // A wait that has begun goes on.
  void BeginOnce(Wait& wait) {
    if (wait.since.load() == kNotWaiting) Begin(wait);
  }

  void NoteAcknowledged(std::chrono::nanoseconds time) {
    const Time began = blocked_.since;
    if (began == kNotWaiting || clock_.Now() - began < time / 2) return;
    int64_t unknown = kUnknown;
    if (blocked_.acknowledged == kUnknown) {
      blocked_.acknowledged.compare_exchange_strong(unknown,
                                                    connection_->Read().acked_bytes);
    }
  }

  bool PeerActs(const Wait& wait) const {
    if (connection_ == nullptr) return false;
    const int64_t acknowledged = wait.acknowledged;
    return connection_->unread_bytes() > 0 ||
           (acknowledged != kUnknown && connection_->Read().acked_bytes > acknowledged);
  }

  bool Claim(Wait& wait, std::chrono::nanoseconds time) {
    Time began = wait.since;
    const Time now = clock_.Now();
    if (began == kNotWaiting || now - began < time) return false;
    const bool renewed =
        time.count() > 0 && wait.renewals < kMostRenewals && PeerActs(wait);
    if (!wait.since.compare_exchange_strong(began, renewed ? now : kNotWaiting)) {
      return false;
    }
    if (renewed) {
      ++wait.renewals;
      wait.acknowledged = kUnknown;
    }
    return !renewed;
  }

  const End stop_;
  const End cancel_;
  const Clock& clock_;
  const std::shared_ptr<const Connection> connection_;
  Wait unopened_;
  Wait uncredited_;
  Wait blocked_;
};

// The set of open calls. Safe for concurrent use. Ends calls with no lock held.
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
  // transport: a bounded number of them, a repetition ends the others.
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
