// SPDX-License-Identifier: MIT
// A function that is called once with the outcome of what was asked for: the first call
// counts, and where all copies go without one it is called with an error. So an answer
// cannot be forgotten, by whatever path its owner ends.
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
#include "server/engine/engine_errors.h"
#include "server/engine/waiters.h"

namespace mnemon {

// `Outcome`: absl::Status or an absl::StatusOr. Copies are of one answer. Safe for
// concurrent use, but for what changes the copy itself.
template <class Outcome>
class OneAnswer {
 public:
  // None is wanted.
  OneAnswer() = default;
  OneAnswer(std::nullptr_t) {}
  // `function` is called on the thread that answers, or that destroys the last copy, or
  // on one that ends what waits (Waiters); with no lock of the engine held. It, and
  // what it holds, is destroyed then. Throws std::bad_alloc: then it is not called.
  template <class Function>
  requires(!std::same_as<std::remove_cvref_t<Function>, OneAnswer> &&
           std::invocable<std::remove_cvref_t<Function>&, Outcome>)
      OneAnswer(Function&& function)
      : state_(std::make_shared<Of<std::remove_cvref_t<Function>>>(
            std::forward<Function>(function))) {}

  explicit operator bool() const { return state_ != nullptr; }

  // REQUIRES: one is wanted.
  void operator()(Outcome outcome) const {
    // The function may destroy what this one is part of.
    const std::shared_ptr<State> kept = state_;
    kept->Answer(std::move(outcome));
  }
  // From now on it has to come within the bound of its kind. REQUIRES: no other thread
  // knows it, and it was not called before.
  void Watch(Waiters& waiters, WaiterKind kind) const {
    if (state_ != nullptr) waiters.Add(kind, state_);
  }
  // It is not to be called any more. False: it was.
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
    // Of the destructor of what is derived: the function is still there.
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

    std::optional<Function> function_;  // of whoever has set answered_
  };

  std::shared_ptr<State> state_;
};

// Of what is answered on a callback thread, mostly.
template <class T>
using OnAnswer = OneAnswer<absl::StatusOr<T>>;
// That what changed before is synced, or why it is not.
using OnSynced = OneAnswer<absl::Status>;

}  // namespace mnemon
