// SPDX-License-Identifier: MIT
// What the handlers of all calls share.
#pragma once

#include <functional>
#include <optional>
#include <string>

#include "absl/status/statusor.h"
#include "base/clock.h"
#include "base/token_bucket.h"
#include "server/engine/engine.h"
#include "server/service/caller.h"
#include "server/service/open_calls.h"
#include "server/waiting/callback_threads.h"

namespace mnemon {

// The check of a call before any work is done for it: its deadline, and the number of
// calls per second over all callers. Safe for concurrent use.
class Admission {
 public:
  // As many calls as a second brings, at least one, are admitted at once. 0 = any
  // number. REQUIRES: finite, not negative; `clock` outlives it.
  Admission(double calls_per_second, const Clock& clock);

  // DEADLINE_EXCEEDED; RESOURCE_EXHAUSTED, RATE_LIMIT, with the time until the next
  // call can be admitted.
  absl::Status Admit(const Caller& caller);

 private:
  const double per_second_;
  const Clock& clock_;
  std::optional<TokenBucket> bucket_;  // absent: any number
};

// The threads of calls that may wait, for memory or for the store. gRPC has few threads
// of its own, which streams, cancellations and health checks need. Safe for concurrent
// use. Outlives what it calls.
class HandlerThreads {
 public:
  // Calls that may wait at once; others wait for a thread.
  static constexpr int kCount = 16;

  // Has one of the threads call `body` with OK; or with UNAVAILABLE, NO_ANSWER, if none
  // was free within Waiters::kBound. `body` must not throw. Throws std::bad_alloc: then
  // it is not called.
  void Run(std::function<void(const absl::Status& turn)> body);

 private:
  // Throws std::system_error.
  CallbackThreads threads_{kCount, CallbackThreads::kDelay, /*most_at_once=*/1};
};

// All outlive the calls.
struct CallServices {
  Engine& engine;
  OpenCalls& calls;
  Admission& admission;
  HandlerThreads& handlers;  // for all that looks for a session

  // The name of the model that serves a call: that of `session`, or `model`, which may
  // be empty when one is loaded. Errors as Engine::ModelOfSession, GetModel.
  absl::StatusOr<std::string> ServingModel(const std::string& session,
                                           const std::string& model) const;
  // Enters the session (an id) and the model that a request names into the record of
  // its call, as far as they are known; either may be empty.
  void RecordNames(Caller& caller, const std::string& session,
                   const std::string& model) const;
};

}  // namespace mnemon
