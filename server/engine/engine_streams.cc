// SPDX-License-Identifier: MIT
// Calls that are resumed or repeated.
#include <algorithm>
#include <utility>

#include "base/error.h"
#include "base/out_of_memory.h"
#include "base/status_macros.h"
#include "server/engine/engine.h"
#include "server/engine/engine_errors.h"
#include "server/engine/introspection_limits.h"
#include "server/engine/request_check.h"

namespace mnemon {
namespace {

absl::Status CheckResume(const GenerateRequest& request) {
  MNEMON_RETURN_IF_ERROR(CheckRequestId(request.request_id));
  if (request.session.empty()) {
    return InvalidField("session", "a call without a session cannot be resumed");
  }
  if (request.request_id.empty()) {
    return InvalidField("request_id", "a resume needs the request_id of its call");
  }
  return absl::OkStatus();
}

}  // namespace

absl::StatusOr<std::shared_ptr<const CallRecord>> Engine::FindResumed(
    const GenerateRequest& request, const Session& session) const {
  using IdUse = SessionDirectory::IdUse;
  const SessionDirectory& directory = context_->directory;
  if (request.resume_after) MNEMON_RETURN_IF_ERROR(CheckResume(request));
  if (session.id.empty() || request.request_id.empty()) return nullptr;
  const std::shared_ptr<const CallRecord> newest = directory.NewestCall(session);
  if (newest && newest->request_id == request.request_id) {
    if (!request.resume_after && newest->request_hash != HashOf(request)) {
      return engine_errors::RequestDiffers(session.id);
    }
    return newest;
  }
  if (!request.resume_after) return nullptr;
  switch (directory.UseOf(session, request.request_id)) {
    case IdUse::kRemembered:
      return engine_errors::RequestRepeated(session.id);
    case IdUse::kHolds:  // and waits to begin
      return Busy(session);
    case IdUse::kUnknown:
      break;
  }
  return engine_errors::RequestUnknown(session.id);
}

std::shared_ptr<Call> Engine::MakeCall(
    std::shared_ptr<Session> session, const CallRecord& record,
    std::optional<std::chrono::steady_clock::time_point> deadline,
    std::function<void()> on_ready) const {
  const Tokenizer* const tokenizer =
      runners_[session->model].decoder->model().tokenizer;
  auto call = std::make_shared<Call>();
  call->session = std::move(session);
  call->sampling = Rounded(record.sampling.values);
  call->sampling.seed = *record.sampling.seed;
  call->max_tokens = record.max_tokens;
  call->stop_tokens = record.stop_tokens;
  call->end_tokens = record.end_tokens;
  if (!record.stop_strings.empty()) {
    call->stop_matcher.emplace(*tokenizer, record.stop_strings);
  }
  call->time_limit = record.time_limit;
  call->logprobs = record.logprobs;
  call->introspection = record.introspection;
  call->request_id = record.request_id;
  call->deadline = deadline;
  OpenStream(call, tokenizer, record.stop_strings, std::move(on_ready));
  return call;
}

absl::StatusOr<std::shared_ptr<TokenStream>> Engine::Resume(
    std::shared_ptr<Session> session, const CallRecord& record, int64_t after,
    std::optional<std::chrono::steady_clock::time_point> deadline,
    std::function<void()> on_ready) const {
  MNEMON_RETURN_IF_ERROR(CheckIntrospection(record.introspection,
                                            runners_[session->model].decoder->model()));
  const std::shared_ptr<Call> call =
      MakeCall(std::move(session), record, deadline, std::move(on_ready));
  call->resume_after = after;
  call->resume_number = context_->directory.BeginResume(*call->session);
  const absl::Status submitted = Submit(call, {});
  // Nobody else has its stream yet.
  if (absl::IsCancelled(submitted)) return engine_errors::StreamResumed();
  MNEMON_RETURN_IF_ERROR(submitted);
  return call->stream;
}

absl::Status Engine::Submit(const std::shared_ptr<Call>& call,
                            std::span<const int32_t> prompt_tokens) const {
  if (call->stateless()) return SubmitHeld(call, prompt_tokens);
  Session& session = *call->session;
  if (session.journal) MNEMON_RETURN_IF_ERROR(session.journal->status());
  MNEMON_ASSIGN_OR_RETURN(const Entry entry, Enter(*call));
  if (entry == Entry::kHeld) return SubmitRestored(call, prompt_tokens);
  if (entry == Entry::kBusy) return Busy(session);
  const OnAnswer<bool> on_done =
      [this, call, prompt = std::vector(prompt_tokens.begin(), prompt_tokens.end())](
          const absl::StatusOr<bool>& ended) {
        SubmitAfterOther(call, prompt, ended.status());
      };
  MNEMON_RETURN_IF_ERROR(Begin(WaiterKind::kGiveWay, on_done, [&] {
    runners_[session.model].decoder->Do(
        MakeGiveWayTask(call->session, call->resume_after ? call->request_id : "",
                        call->resume_number, context_->directory, on_done));
    return absl::OkStatus();
  }));
  // The parts to score are counted from the history that the call holds.
  return call->scoring ? Busy(session) : absl::OkStatus();
}

void Engine::SubmitAfterOther(const std::shared_ptr<Call>& call,
                              const std::vector<int32_t>& prompt,
                              absl::Status ended) const {
  const absl::Status status = CatchOutOfMemory({}, [&]() -> absl::Status {
    MNEMON_RETURN_IF_ERROR(ended);
    MNEMON_ASSIGN_OR_RETURN(const Entry entry, Enter(*call));
    if (entry == Entry::kHeld) return SubmitRestored(call, prompt);
    if (call->resume_after) {
      CallbackList turn;
      turn.Add(MakeCallback(
          [this, call, prompt] { SubmitAfterOther(call, prompt, absl::OkStatus()); }));
      if (context_->directory.AwaitTurn(*call->session, call->request_id, turn)) {
        return absl::OkStatus();
      }
    }
    return Busy(*call->session);
  });
  if (!status.ok() && call->stream->Finish(status, std::nullopt)) {
    call->stream->RunCallback();
  }
}

absl::Status Engine::SubmitRestored(const std::shared_ptr<Call>& call,
                                    std::span<const int32_t> prompt_tokens) const {
  if (!persistence_ || !persistence_->CanRestore(*call->session)) {
    return SubmitHeld(call, prompt_tokens);
  }
  bool begun = false;
  const absl::Status status = CatchOutOfMemory({}, [&] {
    // Comes whatever happens to the state, which can be computed again.
    const OnAnswer<bool> restored =
        [this, call, prompt = std::vector(prompt_tokens.begin(), prompt_tokens.end())](
            const auto&) {
          absl::Status status = SubmitHeld(call, prompt);
          if (!status.ok() && call->stream->Finish(std::move(status), std::nullopt)) {
            call->stream->RunCallback();
          }
        };
    begun = true;
    persistence_->Restore(call->session, [restored] { restored(true); });
    return absl::OkStatus();
  });
  if (begun) return absl::OkStatus();
  LetGo(*call);
  return status;
}

absl::StatusOr<Engine::Entry> Engine::Enter(Call& call) const {
  Session& session = *call.session;
  SessionDirectory& directory = context_->directory;
  const bool resumes = call.resume_after.has_value();
  const SessionDirectory::Resume resume{.call = call.shared_from_this(),
                                        .number = call.resume_number};
  MNEMON_ASSIGN_OR_RETURN(const bool held, directory.Hold(session, call.request_id,
                                                          resumes ? &resume : nullptr));
  const std::shared_ptr<const CallRecord> newest = directory.NewestCall(session);
  const bool cut = !resumes && newest && newest->cuts(session.history.size());
  if (held && !cut) return Entry::kHeld;
  if (held) directory.Release(session, /*taken=*/false);
  return cut || (resumes && newest) ? Entry::kAfterAnother : Entry::kBusy;
}

absl::StatusOr<bool> Engine::TakeUp(Call& call, std::vector<int32_t>& prompt) const {
  Session& session = *call.session;
  const std::shared_ptr<const CallRecord> newest =
      context_->directory.NewestCall(session);
  if (!newest || newest->request_id != call.request_id) {
    return engine_errors::RequestUnknown(session.id);
  }
  const CallRecord& record = *newest;
  const int64_t after = *call.resume_after;
  const int64_t most =
      record.end ? record.end->size : record.prompt_end + record.max_tokens;
  if (after != -1 && (after < record.prompt_end - 1 || after >= most)) {
    return engine_errors::IndexOutOfRange(after, record.prompt_end - 1, most - 1);
  }
  const int64_t size = session.history.size();
  const bool undone = size < record.prompt_end;
  int64_t begin = undone ? record.prompt_end : size;
  // What was not kept is computed again.
  if (record.logprobs.wanted || record.introspection.any()) {
    begin = std::min(begin, std::max(record.prompt_end, after + 1));
  }
  std::vector<int32_t> tokens(static_cast<size_t>(begin - record.prompt_end));
  if (!undone) session.history.Read(record.prompt_end, tokens);
  call.generated = begin - record.prompt_end;
  call.goes_on = record.on_disconnect == OnDisconnect::kContinue;
  std::optional<std::string> stop_string;
  if (call.stop_matcher) {
    for (const int32_t token : tokens) stop_string = call.stop_matcher->Push(token);
  }
  std::optional<CallRecord::End> end;
  if (record.end && !undone && begin == record.end->size) {
    end = record.end;
  } else if (!record.end && !tokens.empty()) {
    const int64_t limit = runners_[session.model].decoder->context_limit();
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
    call.ending = {.status = end->status, .facts = end->facts};
    if (session.journal) ReleaseWhenSynced(*session.journal, call.stream);
    return true;
  }
  prompt = record.prompt;
  call.base = record.base;
  call.prompt_end = record.prompt_end;
  CallRecord running = record;
  running.prompt.clear();
  running.delivered.reset();
  if (undone) {
    call.least = record.base;
  } else {
    call.resumed_at = begin;
    call.least = std::min(begin, record.delivered.value_or(size));
  }
  if (record.end) {
    // Its own end comes first.
    call.time_limit.reset();
    call.max_tokens = std::min(call.max_tokens, record.end->size - record.prompt_end);
  }
  call.record = std::make_shared<CallRecord>(std::move(running));
  context_->callbacks.Post(call.stream);
  return false;
}

absl::Status Engine::CompleteRecord(Call& call, std::span<const int32_t> prompt) const {
  if (!call.record) return absl::OkStatus();
  if (!call.resume_after) {
    call.goes_on = call.record->on_disconnect == OnDisconnect::kContinue;
    call.record->base = call.session->history.size();
    call.record->prompt_end = call.record->base + static_cast<int64_t>(prompt.size());
  }
  CallRecord undone = *call.record;
  undone.prompt.assign(prompt.begin(), prompt.end());
  undone.delivered = undone.base;
  call.undone = std::make_shared<ChargedRecord>(
      std::move(undone), ChargeOf(context_->memory, &EngineMemory::queue));
  const int64_t bytes = PromptBytes(*call.undone);
  return call.undone->charge.TrySet(bytes) ? absl::OkStatus()
                                           : context_->MemoryLimit(bytes);
}

}  // namespace mnemon
