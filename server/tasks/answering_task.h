// SPDX-License-Identifier: MIT
// A task of a runner that answers with what it returns.
#pragma once

#include <memory>
#include <utility>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "server/tasks/state_task.h"
#include "server/waiting/callback_threads.h"
#include "server/waiting/one_answer.h"

namespace mnemon {

// Calls a function with the outcome of a task.
template <class T>
class PostedAnswer final : public Callback {
 public:
  explicit PostedAnswer(OnAnswer<T> on_done) : on_done_(std::move(on_done)) {}

  void Set(absl::StatusOr<T> outcome) { outcome_ = std::move(outcome); }
  void RunCallback() override { std::exchange(on_done_, {})(std::move(outcome_)); }

 private:
  OnAnswer<T> on_done_;
  absl::StatusOr<T> outcome_ = absl::InternalError("no outcome");
};

// Answers with what Do returns, on one of `threads`, or of the callback threads. The
// answer is made with it: where memory runs out there is still one.
template <class T>
class AnsweringTask : public StateTask {
 public:
  explicit AnsweringTask(OnAnswer<T> on_done, CallbackThreads* threads = nullptr)
      : threads_(threads),
        answer_(std::make_shared<PostedAnswer<T>>(std::move(on_done))) {}

  void Run(StateAccess& states) final {
    answer_->Set(Do(states));
    threads_ != nullptr ? threads_->Post(answer_) : states.Post(answer_);
  }
  void Refuse(const absl::Status& status) final {
    answer_->Set(status);
    answer_->RunCallback();
  }

 protected:
  virtual absl::StatusOr<T> Do(StateAccess& states) = 0;

 private:
  CallbackThreads* const threads_;
  const std::shared_ptr<PostedAnswer<T>> answer_;
};

}  // namespace mnemon
