// SPDX-License-Identifier: MIT
// A running Score call, as its caller sees it.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>

#include "absl/status/statusor.h"
#include "server/engine/model_runner.h"
#include "server/engine/request.h"
#include "server/engine/request_check.h"
#include "server/engine/token_stream.h"

namespace mnemon {

// Safe for concurrent use.
struct ScoreCall {
  // Each scored token with its log-probability; ends with OK after `close`, when all
  // were scored. Cancelled like any other.
  std::shared_ptr<TokenStream> stream;
  // Hands over the next part and returns how many tokens of it will be scored: all but
  // the first one of a history. Errors are those of a prompt, field "prompt"; the part
  // is then without effect. A caller waits for the scores before the next part.
  std::function<absl::StatusOr<int64_t>(const Prompt& part)> append;
  // No part comes any more.
  std::function<void()> close;
};

// The call's parts go to `runner`, which may end before them.
ScoreCall MakeScoreCall(const std::shared_ptr<ModelRunner>& runner,
                        const std::shared_ptr<Call>& call, const CallLimits& limits);

}  // namespace mnemon
