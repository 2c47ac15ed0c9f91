// SPDX-License-Identifier: MIT
// Observer of an engine's events, for metrics. An engine without one measures nothing.
//
// A "request" is one call that generates. It is taken, is admitted (its prompt is about
// to be computed), gives tokens and ends; or it is refused, or ends before admission.
#pragma once

#include <chrono>
#include <cstdint>
#include <memory>
#include <optional>

#include "absl/status/status.h"
#include "base/clock.h"
#include "server/requests/request.h"

namespace mnemon {

using Seconds = std::chrono::duration<double>;

// An event of a named session. A repeated request causes none.
enum class SessionEvent {
  kCreate,
  kFork,
  kRewind,
  kCheckpoint,
  kExport,
  kImport,
  kExpire,
  kVerify,      // valid
  kVerifyFail,  // invalid
};

// How a request that was taken ended.
struct RequestEnd {
  absl::Status status;
  const FinishFacts* finish = nullptr;  // when OK; not owned
  Seconds total{0};                     // since it was taken
  std::optional<Seconds> decode;        // first to last token, when there are two
};

// Methods are called from any thread, without a lock, several times per step and token.
// They must neither block nor throw. `model` is an index into the list of models given
// to Engine::Create.
class EngineObserver {
 public:
  virtual ~EngineObserver() = default;

  // One model call for `sessions` sessions.
  virtual void OnStep(size_t model, int64_t sessions, Seconds took) = 0;

  // `model` is absent when the request names none that is loaded.
  virtual void OnRefused(std::optional<size_t> model, const absl::Status& status) = 0;
  virtual void OnAdmitted(size_t model, const StartFacts& facts, Seconds queued) = 0;
  // `since_taken` is the time to the first token, `since_admitted` that of the prompt.
  virtual void OnFirstToken(size_t model, Seconds since_taken,
                            Seconds since_admitted) = 0;
  virtual void OnNextToken(size_t model, Seconds since_last) = 0;
  // A call waited for the consumer of its stream to take tokens.
  virtual void OnStall(size_t model, Seconds stalled) = 0;
  virtual void OnEnded(size_t model, const RequestEnd& end) = 0;
  // A request resumes or repeats the stream of an earlier one.
  virtual void OnResumed(size_t model) = 0;

  virtual void OnSessionEvent(SessionEvent event) = 0;
  // The state of a session or checkpoint was restored to an arena.
  virtual void OnRestored(SessionTier from, Seconds took) = 0;
};

// Reports the times of one request to an observer. Without one it does nothing and
// reads no clock. Now and Stalled are safe for concurrent use; the rest is called by
// one thread at a time, without a lock.
class RequestTimer {
 public:
  using Time = std::chrono::steady_clock::time_point;

  RequestTimer() = default;
  // The request arrives now. Shared, because a stream may outlive its engine.
  RequestTimer(std::shared_ptr<EngineObserver> observer, const Clock& clock,
               size_t model);

  void Admitted(const StartFacts& facts);
  void Token(Time now);
  void Ended(const absl::Status& status, const std::optional<FinishFacts>& finish);

  // The time, for Stalled.
  Time Now() const { return observer_ ? clock_->Now() : Time(); }
  // The stream was full from `since` until now.
  void Stalled(Time since) const {
    if (observer_) observer_->OnStall(model_, Now() - since);
  }

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
