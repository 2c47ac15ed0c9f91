// SPDX-License-Identifier: MIT
#include "server/engine/call_submission.h"

#include <algorithm>
#include <optional>
#include <string>
#include <utility>

#include "base/error.h"
#include "base/out_of_memory.h"
#include "base/status_macros.h"
#include "server/calls/conversation_prompt.h"
#include "server/calls/introspection_limits.h"
#include "server/requests/engine_errors.h"
#include "server/run/newest_call.h"
#include "server/sessions/session_journal.h"
#include "server/tasks/session_tasks.h"

namespace mnemon {
namespace {

// Tokens that a call generates without its history's memory growing.
constexpr int64_t kMostReserved = 512;

// Tokens of a prompt for which there is always memory, unless that is really gone.
constexpr int64_t kShortPrompt = 512;

}  // namespace

absl::Status CallSubmission::Submit(const std::shared_ptr<Call>& call,
                                    std::span<const int32_t> prompt_tokens) const {
  if (call->stateless()) return SubmitHeld(call, prompt_tokens);
  Session& session = *call->session;
  if (session.journal) MNEMON_RETURN_IF_ERROR(session.journal->status());
  MNEMON_ASSIGN_OR_RETURN(const Entry entry, Enter(*call));
  if (entry == Entry::kHeld) return SubmitRestored(call, prompt_tokens);
  if (entry == Entry::kBusy) return parts_.Busy(session);
  const OnAnswer<bool> on_done =
      [this, call, prompt = std::vector(prompt_tokens.begin(), prompt_tokens.end())](
          const absl::StatusOr<bool>& ended) {
        SubmitAfterOther(call, prompt, ended.status());
      };
  MNEMON_RETURN_IF_ERROR(parts_.Begin(WaiterKind::kGiveWay, on_done, [&] {
    parts_.models.decoder(session.model)
        ->Do(MakeGiveWayTask(call->session,
                             call->resume.after ? call->params->request_id : "",
                             call->resume.number, parts_.context->directory, on_done));
    return absl::OkStatus();
  }));
  // The parts to score are counted from the history that the call holds.
  return call->scoring ? parts_.Busy(session) : absl::OkStatus();
}

absl::StatusOr<CallSubmission::Entry> CallSubmission::Enter(Call& call) const {
  Session& session = *call.session;
  SessionDirectory& directory = parts_.context->directory;
  const bool resumes = call.resume.after.has_value();
  const SessionCalls::Resume resume{.call = call.shared_from_this(),
                                    .number = call.resume.number};
  MNEMON_ASSIGN_OR_RETURN(const bool held,
                          directory.calls().Hold(session, call.params->request_id,
                                                 resumes ? &resume : nullptr));
  const std::shared_ptr<const CallRecord> newest =
      directory.calls().NewestCall(session);
  const bool cut = !resumes && newest && newest->cuts(session.history.size());
  if (held && !cut) return Entry::kHeld;
  if (held) directory.calls().Release(session, /*taken=*/false);
  return cut || (resumes && newest) ? Entry::kAfterAnother : Entry::kBusy;
}

void CallSubmission::SubmitAfterOther(const std::shared_ptr<Call>& call,
                                      const std::vector<int32_t>& prompt,
                                      absl::Status ended) const {
  const absl::Status status = CatchOutOfMemory({}, [&]() -> absl::Status {
    MNEMON_RETURN_IF_ERROR(ended);
    MNEMON_ASSIGN_OR_RETURN(const Entry entry, Enter(*call));
    if (entry == Entry::kHeld) return SubmitRestored(call, prompt);
    if (call->resume.after) {
      CallbackList turn;
      turn.Add(MakeCallback(
          [this, call, prompt] { SubmitAfterOther(call, prompt, absl::OkStatus()); }));
      if (parts_.context->directory.calls().AwaitTurn(*call->session,
                                                      call->params->request_id, turn)) {
        return absl::OkStatus();
      }
    }
    return parts_.Busy(*call->session);
  });
  if (!status.ok() && call->stream->Finish(status, std::nullopt)) {
    call->stream->RunCallback();
  }
}

absl::Status CallSubmission::SubmitRestored(
    const std::shared_ptr<Call>& call, std::span<const int32_t> prompt_tokens) const {
  if (!parts_.persistence || !parts_.persistence->CanRestore(*call->session)) {
    return SubmitHeld(call, prompt_tokens);
  }
  bool begun = false;
  const absl::Status status = CatchOutOfMemory({}, [&] {
    // Called whatever happens to the state, which can be computed again.
    const OnAnswer<bool> restored =
        [this, call, prompt = std::vector(prompt_tokens.begin(), prompt_tokens.end())](
            const auto&) {
          absl::Status status = SubmitHeld(call, prompt);
          if (!status.ok() && call->stream->Finish(std::move(status), std::nullopt)) {
            call->stream->RunCallback();
          }
        };
    begun = true;
    parts_.persistence->Restore(call->session, [restored] { restored(true); });
    return absl::OkStatus();
  });
  if (begun) return absl::OkStatus();
  LetGo(*call);
  return status;
}

absl::Status CallSubmission::SubmitHeld(const std::shared_ptr<Call>& call,
                                        std::span<const int32_t> prompt_tokens) const {
  const size_t model = call->session->model;
  const absl::Status queued =
      CatchOutOfMemory({}, [&] { return Queue(call, prompt_tokens); });
  if (!queued.ok() && !call->stateless()) LetGo(*call);
  EngineObserver* const observer = parts_.context->options.observer.get();
  if (observer && queued.ok() && call->resume.after) observer->OnResumed(model);
  return queued;
}

absl::Status CallSubmission::Queue(const std::shared_ptr<Call>& call,
                                   std::span<const int32_t> prompt_tokens) const {
  Session& session = *call->session;
  ModelRunner& runner = *parts_.models.decoder(session.model);
  std::vector<int32_t> undone;
  if (call->resume.after) {
    MNEMON_ASSIGN_OR_RETURN(const bool ended, TakeUp(*call, undone));
    if (ended) {
      GiveEnd(*call);
      return absl::OkStatus();
    }
    prompt_tokens = undone;
  } else if (call->expected_position &&
             *call->expected_position != session.history.size()) {
    return engine_errors::TokenCountMismatch(session.id, *call->expected_position,
                                             session.history.size());
  }
  const int64_t tokens = call->resume.at.value_or(session.history.size());
  std::vector<int32_t> whole;
  MNEMON_ASSIGN_OR_RETURN(prompt_tokens,
                          WholePrompt(*call, tokens, prompt_tokens, whole));
  const auto prompt = static_cast<int64_t>(prompt_tokens.size());
  if (!call->scoring && tokens + prompt == 0) {
    return InvalidField("prompt", "a new session needs at least one token");
  }
  // The last token of a full history is not computed.
  const bool generates = !call->resume.at && !call->keeps_state;
  if (prompt > runner.context_limit() - tokens && generates) {
    return engine_errors::ContextLimit(tokens, prompt, runner.context_limit());
  }
  const int64_t most = call->params->max_tokens +
                       (call->resume.at ? call->progress.prompt_end : tokens + prompt);
  MNEMON_RETURN_IF_ERROR(LimitIntrospection(*call, runner.model(),
                                            std::min(most, runner.context_limit())));
  MNEMON_RETURN_IF_ERROR(Stage(*call, tokens, most, prompt_tokens));
  return runner.Enqueue(call);
}

void CallSubmission::GiveEnd(Call& call) const {
  // First: the caller who gets the end may come with the next call.
  parts_.context->directory.calls().Release(*call.session, /*taken=*/false);
  if (call.settled.exchange(true)) return;
  static_cast<void>(call.stream->Finish(std::move(call.delivery.ending->status),
                                        std::move(call.delivery.ending->facts)));
  parts_.context->callbacks.Post(call.stream);
}

absl::StatusOr<bool> CallSubmission::TakeUp(Call& call,
                                            std::vector<int32_t>& prompt) const {
  Session& session = *call.session;
  const std::shared_ptr<const CallRecord> newest =
      parts_.context->directory.calls().NewestCall(session);
  if (!newest || newest->params->request_id != call.params->request_id) {
    return engine_errors::RequestUnknown(session.id);
  }
  const CallRecord& record = *newest;
  const int64_t after = *call.resume.after;
  const int64_t most =
      record.end ? record.end->size : record.prompt_end + record.params->max_tokens;
  if (after != -1 && (after < record.prompt_end - 1 || after >= most)) {
    return engine_errors::IndexOutOfRange(after, record.prompt_end - 1, most - 1);
  }
  const int64_t size = session.history.size();
  const bool undone = size < record.prompt_end;
  int64_t begin = undone ? record.prompt_end : size;
  // What was not kept is computed again.
  if (record.params->logprobs.wanted || record.params->introspection.any()) {
    begin = std::min(begin, std::max(record.prompt_end, after + 1));
  }
  std::vector<int32_t> tokens(static_cast<size_t>(begin - record.prompt_end));
  if (!undone) session.history.Read(record.prompt_end, tokens);
  call.progress.generated = begin - record.prompt_end;
  call.goes_on = record.params->on_disconnect == OnDisconnect::kContinue;
  std::optional<std::string> stop_string;
  if (call.steps.stop_matcher) {
    for (const int32_t token : tokens)
      stop_string = call.steps.stop_matcher->Push(token);
  }
  std::optional<CallRecord::End> end;
  if (record.end && !undone && begin == record.end->size) {
    end = record.end;
  } else if (!record.end && !tokens.empty()) {
    const int64_t limit = parts_.models.decoder(session.model)->context_limit();
    if (auto facts = call.EndWith(tokens.back(), begin - 1, stop_string, limit)) {
      end = {.status = {}, .facts = std::move(facts), .size = begin};
    }
  }
  call.stream->Resume({.first_index = record.base,
                       .prompt_tokens = record.prompt_end - record.base,
                       .seed = call.sampling.seed,
                       .queue_time = record.queue_time},
                      after, std::move(tokens));
  if (end) {
    call.delivery.ending = {.status = end->status, .facts = end->facts};
    if (session.journal) {
      session.journal->Flush(WaiterKind::kRelease,
                             [stream = call.stream](const absl::Status& status) {
                               ReleaseEndOf(*stream, status);
                             });
    }
    return true;
  }
  prompt = record.prompt;
  call.progress.base = record.base;
  call.progress.prompt_end = record.prompt_end;
  CallRecord running = record;
  running.prompt.clear();
  running.delivered.reset();
  if (undone) {
    call.progress.least = record.base;
  } else {
    call.resume.at = begin;
    call.progress.least = std::min(begin, record.delivered.value_or(size));
  }
  if (record.end) {
    // Its own end comes first.
    auto params = std::make_shared<CallParams>(*call.params);
    params->time_limit.reset();
    params->max_tokens =
        std::min(params->max_tokens, record.end->size - record.prompt_end);
    call.params = std::move(params);
  }
  call.resume.record = std::make_shared<CallRecord>(std::move(running));
  parts_.context->callbacks.Post(call.stream);
  return false;
}

absl::StatusOr<std::span<const int32_t>> CallSubmission::WholePrompt(
    const Call& call, int64_t tokens, std::span<const int32_t> prompt,
    std::vector<int32_t>& whole) const {
  const ModelRunner& runner = *parts_.models.decoder(call.session->model);
  if (call.conversation) {
    const auto made = call.nameless() ? parts_.context->options.clock->WallNow()
                                      : call.session->create_time;
    MNEMON_ASSIGN_OR_RETURN(
        whole, call.conversation->TokensAfter(call.session->history, tokens,
                                              parts_.LimitsOf(runner), made));
    return whole;
  }
  if (!call.text_prompt || tokens > 0 || call.resume.after) return prompt;
  const auto before = runner.model().tokenizer->before_text();
  whole.assign(before.begin(), before.end());
  whole.insert(whole.end(), prompt.begin(), prompt.end());
  return whole;
}

absl::Status CallSubmission::Stage(Call& call, int64_t tokens, int64_t most,
                                   std::span<const int32_t> prompt) const {
  using Short = SessionPersistence::Short;
  const EngineContext& context = *parts_.context;
  ModelRunner& runner = *parts_.models.decoder(call.session->model);
  TokenHistory& history = call.session->history;
  const auto size = static_cast<int64_t>(prompt.size());
  // What takes time in proportion to prompt or history is done here, not on the
  // runner's thread.
  const auto reserved = std::min<int64_t>(call.params->max_tokens, kMostReserved);
  if (!parts_.MakeRoom(history.BytesOf(size + reserved),
                       call.nameless() ? std::nullopt : std::optional(Short::kResting),
                       [&] { return history.Stage(prompt, reserved); })) {
    // A long prompt says little of others.
    if (call.nameless() && size <= kShortPrompt) runner.RefuseForMemory();
    return engine_errors::MemoryLimit();
  }
  call.prompt_tokens = size;
  MNEMON_RETURN_IF_ERROR(CompleteRecord(call, prompt));
  call.steps.penalties = PenaltyCounts(call.sampling, std::min(most, runner.vocab()));
  call.steps.penalties_charge = ChargeOf(context.memory, &EngineMemory::queue);
  if (!call.steps.penalties_charge.TrySet(call.steps.penalties.bytes())) {
    return context.MemoryLimit(call.steps.penalties.bytes());
  }
  call.steps.penalties.Update(history, tokens + size);
  const bool copied = call.scoring && call.scoring->source;
  call.input_bytes =
      (size + (copied ? tokens : 0)) * static_cast<int64_t>(sizeof(int32_t)) +
      call.steps.penalties.bytes();
  return absl::OkStatus();
}

absl::Status CallSubmission::CompleteRecord(Call& call,
                                            std::span<const int32_t> prompt) const {
  if (!call.resume.record) return absl::OkStatus();
  if (!call.resume.after) {
    call.goes_on = call.resume.record->params->on_disconnect == OnDisconnect::kContinue;
    call.resume.record->base = call.session->history.size();
    call.resume.record->prompt_end =
        call.resume.record->base + static_cast<int64_t>(prompt.size());
  }
  CallRecord undone = *call.resume.record;
  undone.prompt.assign(prompt.begin(), prompt.end());
  undone.delivered = undone.base;
  call.resume.undone = std::make_shared<ChargedRecord>(
      std::move(undone), ChargeOf(parts_.context->memory, &EngineMemory::queue));
  const int64_t bytes = PromptBytes(*call.resume.undone);
  return call.resume.undone->charge.TrySet(bytes) ? absl::OkStatus()
                                                  : parts_.context->MemoryLimit(bytes);
}

void CallSubmission::LetGo(Call& call) const {
  Session& session = *call.session;
  session.history.TakeUnused();
  static_cast<void>(call.stream->StopDelivery());
  RememberStream(*parts_.context, call);
  parts_.context->directory.calls().Release(session, /*taken=*/false);
}

}  // namespace mnemon
