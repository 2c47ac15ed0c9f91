// SPDX-License-Identifier: MIT
// Times of one request, reported to an observer.
#pragma once

#include <chrono>
#include <memory>
#include <optional>

#include "base/clock.h"
#include "server/requests/observer.h"

namespace mnemon {

// Without an observer it does nothing and reads no clock. Now and Stalled are safe for
// concurrent use; the rest is called by one thread at a time, without a lock.
class RequestTimer {
 public:
  using Time = std::chrono::steady_clock::time_point;

  RequestTimer() = default;
  // The request arrives now. Shared, because a stream may outlive its engine.
  RequestTimer(std::shared_ptr<EngineObserver> observer, const Clock& clock,
               size_t model);

  void Admitted(const StartFacts& facts);
  // A token at `now`; ignored without an observer.
  void Token(Time now);
  void Ended(const absl::Status& status, const std::optional<FinishFacts>& finish);

  // The time, for Stalled.
  Time Now() const;
  // The stream was full from `since` until now.
  void Stalled(Time since) const;

 private:
  std::shared_ptr<EngineObserver> observer_;
  const Clock* clock_ = nullptr;
  size_t model_ = 0;
  Time taken_;
  Time admitted_;
  std::optional<Time> first_token_;
  Time last_token_;
};

}  // namespace mnemon
