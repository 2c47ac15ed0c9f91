// SPDX-License-Identifier: MIT
// Calls that judge the tokens they are given: Engine::Score. Such a call takes part in
// rounds like one that feeds a prompt; its prompt comes in parts, and each fed token is
// answered with the log-probability of the next.
#include <algorithm>
#include <new>
#include <utility>

#include "base/error.h"
#include "base/quote.h"
#include "base/status_macros.h"
#include "base/strings.h"
#include "server/engine/engine_core.h"
#include "server/engine/engine_errors.h"
#include "server/engine/request_check.h"

namespace mnemon {
namespace {

using engine_errors::ContextLimit;
using engine_errors::Draining;
using engine_errors::OutOfMemory;
using engine_errors::SessionBusy;

}  // namespace

absl::StatusOr<ScoreCall> EngineCore::Score(const ScoreRequest& request,
                                            std::function<void()> on_ready) try {
  MNEMON_ASSIGN_OR_RETURN(std::shared_ptr<Session> session,
                          SessionFor(request.session, request.model));
  MNEMON_RETURN_IF_ERROR(
      CheckCandidates(request.candidates, lanes_[session->lane]->vocab));
  auto call = std::make_shared<Call>();
  call->scoring.emplace();
  call->logprobs = {.wanted = true, .candidates = request.candidates};
  call->session = std::move(session);
  if (!request.session.empty() && !request.commit) {
    auto copy = std::make_shared<Session>();
    copy->lane = call->session->lane;
    call->scoring->source = std::exchange(call->session, std::move(copy));
  }
  OpenStream(call, nullptr, std::move(on_ready), {});

  Lock lock(mutex_);
  if (const auto& source = call->scoring->source) {
    MNEMON_RETURN_IF_ERROR(CheckAtRestLocked(*source));
    call->session->history = source->history;
  }
  MNEMON_RETURN_IF_ERROR(EnqueueLocked(call));
  call->scoring->tokens = static_cast<int64_t>(call->session->history.size());
  return ScoreCall{.stream = call->stream,
                   .append = [core = weak_from_this(),
                              call](const Prompt& part) -> absl::StatusOr<int64_t> {
                     const auto engine = core.lock();
                     if (!engine) return Draining();
                     return engine->AppendInput(*call, part);
                   },
                   .close =
                       [core = weak_from_this(), call] {
                         if (const auto engine = core.lock()) engine->CloseInput(*call);
                       }};
} catch (const std::bad_alloc&) {
  return OutOfMemory();
}

absl::StatusOr<int64_t> EngineCore::AppendInput(Call& call, const Prompt& part) try {
  const Lane& lane = *lanes_[call.session->lane];
  const CallLimits limits = {.vocab = lane.vocab,
                             .max_tokens = options_.max_tokens,
                             .max_prompt_tokens = options_.max_prompt_tokens};
  MNEMON_ASSIGN_OR_RETURN(std::vector<int32_t> tokens,
                          PromptTokens(part, lane.model.tokenizer, limits));
  Lock lock(mutex_);
  Scoring& scoring = *call.scoring;
  const int64_t before = scoring.tokens;
  const auto count = static_cast<int64_t>(tokens.size());
  if (count > lane.context - before) {
    return ContextLimit(before, count, lane.context);
  }
  scoring.input.insert(scoring.input.end(), tokens.begin(), tokens.end());
  scoring.tokens += count;
  WakeLocked();
  // Nothing says how likely the first token of all is.
  return before == 0 ? std::max<int64_t>(0, count - 1) : count;
} catch (const std::bad_alloc&) {
  return OutOfMemory();
}

void EngineCore::CloseInput(Call& call) {
  Lock lock(mutex_);
  call.scoring->closed = true;
  WakeLocked();
}

absl::Status EngineCore::AdmitScoringLocked(Lane& lane, Call& call) {
  Session& session = *call.session;
  MNEMON_RETURN_IF_ERROR(session.state.Acquire(*lane.arena));
  if (const auto& source = call.scoring->source) {
    MNEMON_RETURN_IF_ERROR(CheckAtRestLocked(*source));
    if (source->history != session.history) return SessionBusy(source->id);
    MNEMON_RETURN_IF_ERROR(session.state.CopyFrom(source->state, *lane.arena));
  }
  call.scoring->next = static_cast<int64_t>(session.history.size());
  // The first token of all is not judged.
  if (call.scoring->next == 0) call.scoring->next = 1;
  return absl::OkStatus();
}

void EngineCore::TakeInputsLocked(Lane& lane) {
  for (size_t i = lane.running.size(); i-- > 0;) {
    const std::shared_ptr<Call> call = lane.running[i];
    if (!call->scoring) continue;
    std::vector<int32_t>& history = call->session->history;
    std::vector<int32_t>& input = call->scoring->input;
    history.insert(history.end(), input.begin(), input.end());
    input.clear();
    call->prompt_end = static_cast<int64_t>(history.size());
    if (call->scoring->closed &&
        call->scoring->next >= static_cast<int64_t>(history.size())) {
      EndLocked(lane, call, absl::OkStatus(), FinishFacts{});
    }
  }
}

void EngineCore::CommitJudgedLocked(const Feed& feed) {
  Scoring& scoring = *feed.call->scoring;
  for (const TokenLogprobs& judged : feed.judged) {
    out_.Push(feed.call->stream, scoring.next++, judged.token, judged);
  }
}

}  // namespace mnemon
