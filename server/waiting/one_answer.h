// SPDX-License-Identifier: MIT
// A callback for the outcome of a request, called exactly once unless it is dismissed.
// The first call counts; if all copies are destroyed without one, it is called with an
// error. So no request stays unanswered, however its owner ends.
#pragma once

#include <atomic>
#include <concepts>
#include <cstddef>
#include <memory>
#include <optional>
#include <type_traits>
#include <utility>

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
      : state_(std::make_shared<Of<std::remove_cvref_t<Function>>>(
            std::forward<Function>(function))) {}

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
  class State : public Waiter {
   public:
    void Answer(Outcome outcome) {
      Leave();
      if (!answered_.exchange(true)) Call(std::move(outcome));
    }
    bool Dismiss() {
      Leave();
      if (answered_.exchange(true)) return false;
      Drop();
      return true;
    }

   protected:
    // For the destructor of the derived class, where the function still exists.
    void AnswerLast() {
      if (!answered_) Answer(CatchOutOfMemory({}, engine_errors::NoAnswer));
    }

   private:
    void End(const absl::Status& status) override {
      if (!answered_.exchange(true)) Call(status);
    }
    virtual void Call(Outcome outcome) = 0;
    virtual void Drop() = 0;

    std::atomic<bool> answered_ = false;
  };

  template <class Function>
  class Of final : public State {
   public:
    explicit Of(Function function) : function_(std::move(function)) {}
    ~Of() override { this->AnswerLast(); }

   private:
    void Call(Outcome outcome) override {
      (*function_)(std::move(outcome));
      Drop();
    }
    void Drop() override { function_.reset(); }

    std::optional<Function> function_;  // used by whoever has set answered_
  };

  std::shared_ptr<State> state_;
};

// The usual answer, given on a callback thread.
template <class T>
using OnAnswer = OneAnswer<absl::StatusOr<T>>;
// OK: all changes before the request are synced. Else why they are not.
using OnSynced = OneAnswer<absl::Status>;

}  // namespace mnemon
