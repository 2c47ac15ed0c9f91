// SPDX-License-Identifier: MIT
#include "server/run/score_call.h"

#include <algorithm>
#include <mutex>
#include <new>
#include <optional>
#include <utility>
#include <vector>

#include "base/out_of_memory.h"
#include "base/status_macros.h"
#include "server/requests/engine_errors.h"

namespace mnemon {
namespace {

class ScoreInput {
 public:
  ScoreInput(const std::shared_ptr<ModelRunner>& runner,
             const std::shared_ptr<Call>& call, const CallLimits& limits)
      : runner_(runner), call_(call), limits_(limits) {}

  absl::StatusOr<int64_t> Append(const Prompt& part) try {
    const std::shared_ptr<ModelRunner> runner = runner_.lock();
    if (!runner) return engine_errors::Draining();
    MNEMON_ASSIGN_OR_RETURN(std::vector<int32_t> tokens,
                            PromptTokens(part, runner->model().tokenizer, limits_));
    std::lock_guard lock(mutex_);
    if (!tokens_) tokens_ = call_->session->history.size();
    const int64_t before = *tokens_;
    if (before == 0 && IsText(part) && !tokens.empty()) {
      const auto first = runner->model().tokenizer->before_text();
      tokens.insert(tokens.begin(), first.begin(), first.end());
    }
    const auto count = static_cast<int64_t>(tokens.size());
    if (count > runner->context_limit() - before) {
      return engine_errors::ContextLimit(before, count, runner->context_limit());
    }
    MNEMON_RETURN_IF_ERROR(runner->AddInput(call_, tokens));
    *tokens_ += count;
    // The first token of all has no prediction.
    return before == 0 ? std::max<int64_t>(0, count - 1) : count;
  } catch (const std::bad_alloc&) {
    return OutOfMemoryError();
  }

  void Close() {
    if (const auto runner = runner_.lock()) runner->CloseInput(call_);
  }

 private:
  const std::weak_ptr<ModelRunner> runner_;
  const std::shared_ptr<Call> call_;
  const CallLimits limits_;
  std::mutex mutex_;
  // Of the history, which the call holds from its first part on, and of all parts;
  // guarded by mutex_.
  std::optional<int64_t> tokens_;
};

}  // namespace

ScoreCall MakeScoreCall(const std::shared_ptr<ModelRunner>& runner,
                        const std::shared_ptr<Call>& call, const CallLimits& limits) {
  const auto input = std::make_shared<ScoreInput>(runner, call, limits);
  return {.stream = call->stream,
          .append = [input](const Prompt& part) { return input->Append(part); },
          .close = [input] { input->Close(); }};
}

}  // namespace mnemon
