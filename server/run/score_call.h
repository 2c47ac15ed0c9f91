// SPDX-License-Identifier: MIT
// A running Score call, as its caller sees it.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>

#include "absl/status/statusor.h"
#include "server/requests/request.h"
#include "server/requests/request_check.h"
#include "server/run/model_runner.h"
#include "server/streams/token_stream.h"

namespace mnemon {

// Safe for concurrent use. May outlive the engine.
struct ScoreCall {
  // Each scored token with its log-probability; ends with OK after `close`, when all
  // tokens were scored and pushed. Ends with ABORTED, CALLER_IDLE, when for
  // idle_timeout the consumer did not read, or all parts were scored and neither append
  // nor close was called; time in the queue counts while nothing was sent.
  std::shared_ptr<TokenStream> stream;
  // Queues the next part and returns how many of its tokens will be scored: all but the
  // first one of a history. Encodes text on the calling thread, and does not wait for
  // the model. On error the part has no effect:
  //   INVALID_ARGUMENT, FAILED_PRECONDITION   as of a prompt, field "prompt"
  //   RESOURCE_EXHAUSTED   QUEUE_FULL while the call waits for a permit, OUT_OF_MEMORY
  //   UNAVAILABLE          DRAINING: the engine was destroyed
  // Once the call runs, only the context bounds how far parts may run ahead of the
  // scores. After the end of the call a part is checked and counted, but dropped.
  // REQUIRES: `close` was not called.
  std::function<absl::StatusOr<int64_t>(const Prompt& part)> append;
  // No part follows. No effect when called again, or after the end of the call.
  std::function<void()> close;
};

// Parts go to `to`, of which the result holds a weak reference.
ScoreCall MakeScoreCall(const std::shared_ptr<ModelRunner>& to,
                        const std::shared_ptr<Call>& call, const CallLimits& limits);

}  // namespace mnemon
