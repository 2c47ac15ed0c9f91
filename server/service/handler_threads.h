// SPDX-License-Identifier: MIT
// The threads on which calls go on that may wait, for memory or for what the store
// reads. gRPC has few threads of its own, and streams, cancellations and health checks
// need them.
#pragma once

#include <functional>

#include "absl/status/status.h"
#include "server/waiting/callback_threads.h"

namespace mnemon {

// Safe for concurrent use. Outlives what it is to call.
class HandlerThreads {
 public:
  // So many calls may wait at once; others wait for a thread. Most of them wait for the
  // store or for a sweep, and need no processor.
  static constexpr int kCount = 16;

  // Has one of the threads call `body` with OK; or with UNAVAILABLE, NO_ANSWER, where
  // none was free within Waiters::kBound. `body` must not throw. Throws std::bad_alloc:
  // then it is not called.
  void Run(std::function<void(const absl::Status& turn)> body);

 private:
  // Throws std::system_error.
  CallbackThreads threads_{kCount, CallbackThreads::kDelay, /*most_at_once=*/1};
};

}  // namespace mnemon
