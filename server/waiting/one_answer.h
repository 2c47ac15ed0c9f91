// SPDX-License-Identifier: MIT
// A callback for the outcome of a request, called exactly once unless it is dismissed.
// The first call counts; if all copies are destroyed without one, it gets an error.
#pragma once

#include <atomic>
#include <concepts>
#include <cstddef>
#include <memory>
#include <mutex>
#include <optional>
#include <type_traits>
#include <utility>
#include <vector>

#include "absl/functional/any_invocable.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "base/out_of_memory.h"
#include "server/requests/engine_errors.h"
#include "server/waiting/waiters.h"

namespace mnemon {

// `Outcome`: absl::Status or an absl::StatusOr. Copies share one answer. Safe for
// concurrent use, except for changes of the copy itself.
template <class Outcome>
class OneAnswer {
 public:
  // No answer is wanted.
  OneAnswer() = default;
  OneAnswer(std::nullptr_t) {}
  // `function` is called on the thread that answers, destroys the last copy, or ends
  // overdue waiters (Waiters), without a lock of the engine. It is destroyed after the
  // call. Throws std::bad_alloc, then it is not called.
  template <class Function>
  requires(!std::same_as<std::remove_cvref_t<Function>, OneAnswer> &&
           std::invocable<std::remove_cvref_t<Function>&, Outcome>)
      OneAnswer(Function&& function)
      : state_(std::make_shared<State>(std::forward<Function>(function))) {}

  explicit operator bool() const { return state_ != nullptr; }

  // Answers. REQUIRES: an answer is wanted.
  void operator()(Outcome outcome) const {
    // The function may destroy the owner of this object.
    const std::shared_ptr<State> kept = state_;
    kept->Answer(std::move(outcome));
  }
  // From now on the answer is due within the time limit of `kind`. REQUIRES: no other
  // thread knows it, and it was not called before.
  void Watch(Waiters& waiters, WaiterKind kind) const {
    if (state_ != nullptr) waiters.Add(kind, state_);
  }
  // Prevents the call. False: it was called already.
  bool Dismiss() const { return state_ == nullptr || state_->Dismiss(); }

 private:
  class State final : public Waiter {
   public:
    explicit State(absl::AnyInvocable<void(Outcome)> function)
        : function_(std::move(function)) {}
    ~State() override {
      if (!answered_) Answer(CatchOutOfMemory({}, engine_errors::NoAnswer));
    }
    void Answer(Outcome outcome) {
      Leave();
      Call(std::move(outcome));
    }
    bool Dismiss() {
      Leave();
      if (answered_.exchange(true)) return false;
      function_ = nullptr;
      return true;
    }

   private:
    void End(const absl::Status& status) override { Call(status); }
    void Call(Outcome outcome) {
      if (answered_.exchange(true)) return;
      function_(std::move(outcome));
      function_ = nullptr;
    }

    absl::AnyInvocable<void(Outcome)> function_;  // of whoever has set answered_
    std::atomic<bool> answered_ = false;
  };

  std::shared_ptr<State> state_;
};

// The usual answer, given on a callback thread.
template <class T>
using OnAnswer = OneAnswer<absl::StatusOr<T>>;
// OK: all changes before the request are synced. Else why they are not.
using OnSynced = OneAnswer<absl::Status>;

// The outcome of an operation under way, for all who wait for it. Safe for concurrent
// use.
class SharedAnswer {
 public:
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
