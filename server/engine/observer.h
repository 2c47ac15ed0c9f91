// SPDX-License-Identifier: MIT
// An observer of an engine's events, reported as they happen, for metrics. An engine
// without an observer measures nothing.
//
// "Request" is one call that generates. Its life: taken, admitted (its prompt is about
// to be computed), tokens, ended; or refused, or ended before it was admitted.
#pragma once

#include <chrono>
#include <cstdint>
#include <optional>

#include "absl/status/status.h"
#include "server/engine/request.h"

namespace mnemon {

using Seconds = std::chrono::duration<double>;

// What happened to a named session. A repetition of the call that made something is
// none of these.
enum class SessionEvent {
  kCreate,
  kFork,
  kRewind,
  kCheckpoint,
  kExport,
  kImport,
  kExpire,
  kVerify,      // it is in order
  kVerifyFail,  // it is not
};

// How a request that was taken ended.
struct RequestEnd {
  absl::Status status;
  const FinishFacts* finish = nullptr;  // when OK; not owned
  Seconds total{0};                     // since it was taken
  std::optional<Seconds> decode;        // first to last token, when there are two
};

// Methods are called with no lock held, from any thread, several times for every step
// and token, and must neither block nor throw. `model` is the index of a model in the
// list that Engine::Create got.
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
  // A session waited so long for the consumer of its stream to take tokens.
  virtual void OnStall(size_t model, Seconds stalled) = 0;
  virtual void OnEnded(size_t model, const RequestEnd& end) = 0;
  // A request went on with the stream of an earlier one, or repeats it.
  virtual void OnResumed(size_t model) = 0;

  virtual void OnSessionEvent(SessionEvent event) = 0;
  // The state of a session, or of a checkpoint, is in an arena again.
  virtual void OnRestored(SessionTier from, Seconds took) = 0;
};

}  // namespace mnemon
