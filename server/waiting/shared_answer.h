// SPDX-License-Identifier: MIT
// The outcome of an operation under way, for all who wait for it.
#pragma once

#include <mutex>
#include <optional>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "server/waiting/one_answer.h"

namespace mnemon {

// Safe for concurrent use.
class SharedAnswer {
 public:
  SharedAnswer() = default;
  SharedAnswer(const SharedAnswer&) = delete;
  SharedAnswer& operator=(const SharedAnswer&) = delete;

  // Calls `on_done` with the outcome, at once if it is known. Throws std::bad_alloc.
  void Await(OnSynced on_done) {
    {
      std::lock_guard lock(mutex_);
      if (!outcome_) {
        waiters_.emplace_back();
        waiters_.back() = std::exchange(on_done, nullptr);
        return;
      }
    }
    on_done(*outcome_);
  }

  // Sets the outcome and tells all who wait, on this thread. The first outcome counts.
  void Give(const absl::Status& outcome) {
    std::vector<OnSynced> waiters;
    {
      std::lock_guard lock(mutex_);
      if (outcome_) return;
      outcome_ = outcome;
      waiters.swap(waiters_);
    }
    for (const OnSynced& waiter : waiters) waiter(outcome);
  }

 private:
  std::mutex mutex_;
  std::optional<absl::Status> outcome_;  // guarded by mutex_; constant once it is set
  std::vector<OnSynced> waiters_;        // guarded by mutex_
};

}  // namespace mnemon
