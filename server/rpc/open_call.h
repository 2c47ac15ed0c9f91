// SPDX-License-Identifier: MIT
// One open call: how to end it, and since when it waits for its peer.
#pragma once

#include <atomic>
#include <chrono>
#include <functional>
#include <utility>

#include "absl/status/status.h"

namespace mnemon {

// Safe for concurrent use: the reactor of the call reports its waits, other threads end
// the call.
class OpenCall {
 public:
  using Time = std::chrono::steady_clock::time_point;
  // Called with the status of the end, from any thread and also after the call; does
  // not block.
  using End = std::function<void(const absl::Status&)>;

  // `stop` ends the call once the transport has taken what the call sends. `cancel`
  // makes the transport drop that.
  OpenCall(End stop, End cancel) : stop_(std::move(stop)), cancel_(std::move(cancel)) {}

  // The call has nothing to do until its peer sends a message: its first one, or that
  // of the next turn.
  void AwaitMessage() { Begin(unopened_since_); }
  void TakeMessage() { unopened_since_ = kNotWaiting; }
  // The call waits until its peer lets it send more.
  void AwaitCredits() { Begin(uncredited_since_); }
  void TakeCredits() { uncredited_since_ = kNotWaiting; }
  // The call waits until the transport has taken a message or the status; in the latter
  // case until its end.
  void AwaitTransport() { blocked_since_ = std::chrono::steady_clock::now(); }
  void ResumeFromTransport() { blocked_since_ = kNotWaiting; }

  // True when this wait began at `limit` or before, and was not claimed yet.
  bool ClaimUnopened(Time limit) { return Claim(unopened_since_, limit); }
  bool ClaimUncredited(Time limit) { return Claim(uncredited_since_, limit); }
  bool ClaimBlocked(Time limit) { return Claim(blocked_since_, limit); }

  void Stop(const absl::Status& status) const { stop_(status); }
  void Cancel(const absl::Status& status) const { cancel_(status); }

 private:
  static constexpr Time kNotWaiting = Time::max();

  // A wait that has begun goes on.
  static void Begin(std::atomic<Time>& since) {
    Time none = kNotWaiting;
    since.compare_exchange_strong(none, std::chrono::steady_clock::now());
  }

  static bool Claim(std::atomic<Time>& since, Time limit) {
    Time began = since;
    return began != kNotWaiting && began <= limit &&
           since.compare_exchange_strong(began, kNotWaiting);
  }

  const End stop_;
  const End cancel_;
  std::atomic<Time> unopened_since_ = kNotWaiting;
  std::atomic<Time> uncredited_since_ = kNotWaiting;
  std::atomic<Time> blocked_since_ = kNotWaiting;
};

}  // namespace mnemon
