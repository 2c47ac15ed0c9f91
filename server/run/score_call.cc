// SPDX-License-Identifier: MIT
#include "server/run/score_call.h"

#include <algorithm>
#include <mutex>
#include <optional>
#include <utility>
#include <vector>

#include "base/out_of_memory.h"
#include "base/status_macros.h"
#include "server/requests/engine_errors.h"

namespace mnemon {

ScoreCall MakeScoreCall(const std::shared_ptr<ModelRunner>& to,
                        const std::shared_ptr<Call>& call, const CallLimits& limits) {
  // Tokens of the history, which the call holds from its first part on, and of all
  // parts.
  struct Sent {
    std::mutex mutex;
    std::optional<int64_t> tokens;  // guarded by it
  };
  const std::weak_ptr<ModelRunner> weak = to;
  const auto append = [weak, call, limits, sent = std::make_shared<Sent>()](
                          const Prompt& part) -> absl::StatusOr<int64_t> {
    const std::shared_ptr<ModelRunner> runner = weak.lock();
    if (!runner) return engine_errors::Draining();
    const Tokenizer* const tokenizer = runner->model().tokenizer;
    MNEMON_ASSIGN_OR_RETURN(std::vector<int32_t> tokens,
                            PromptTokens(part, tokenizer, limits));
    std::lock_guard lock(sent->mutex);
    if (!sent->tokens) sent->tokens = call->session->history.size();
    const int64_t before = *sent->tokens;
    if (before == 0 && IsText(part) && !tokens.empty()) {
      const auto first = tokenizer->before_text();
      tokens.insert(tokens.begin(), first.begin(), first.end());
    }
    const auto count = static_cast<int64_t>(tokens.size());
    if (count > runner->context_limit() - before) {
      return engine_errors::ContextLimit(before, count, runner->context_limit());
    }
    MNEMON_RETURN_IF_ERROR(runner->AddInput(call, tokens));
    *sent->tokens += count;
    // The first token of all has no prediction.
    return before == 0 ? std::max<int64_t>(0, count - 1) : count;
  };
  return {.stream = call->stream,
          .append =
              [append](const Prompt& part) {
                return CatchOutOfMemory({}, [&] { return append(part); });
              },
          .close =
              [weak, call] {
                if (const auto runner = weak.lock()) runner->CloseInput(call);
              }};
}

}  // namespace mnemon
