// SPDX-License-Identifier: MIT
// The way of a call into the queue of its runner: it gets its session, the state of
// that from the store, and its prompt after the history.
#include <algorithm>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "base/error.h"
#include "base/out_of_memory.h"
#include "base/status_macros.h"
#include "base/strings.h"
#include "server/calls/conversation_prompt.h"
#include "server/engine/decoder_calls.h"
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

// Bounds the tokens that may wait in the stream of a call that ends before the position
// `end` by the introspection that each may bring.
absl::Status LimitIntrospection(const Call& call, const EngineModel& model,
                                int64_t end) {
  if (!call.params->introspection.any()) return absl::OkStatus();
  const Decoder& decoder = *model.decoder;
  const int64_t positions = MostSeen(decoder.spec(), end);
  const int64_t bytes =
      IntrospectionBytes(decoder.model(), call.params->introspection, positions);
  if (bytes > kMaxIntrospectionBytes) {
    return InvalidField(
        "introspection",
        StrCat("the introspection of a token that sees ", positions,
               " positions takes ", bytes, " bytes, at most ", kMaxIntrospectionBytes,
               " are given: ask for fewer tokens, or not for memory_reads"));
  }
  call.stream->SetCapacity(static_cast<int>(
      std::clamp<int64_t>(kMaxWaitingIntrospectionBytes / std::max<int64_t>(1, bytes),
                          1, TokenStream::kCapacity)));
  return absl::OkStatus();
}

// The call will not use the session that it holds.
void LetGo(const EngineParts& parts, Call& call) {
  Session& session = *call.session;
  session.history.TakeUnused();
  static_cast<void>(call.stream->StopDelivery());
  RememberStream(*parts.context, call);
  parts.context->directory.calls().Release(session, /*taken=*/false);
}

// Fills in what of the record depends on the history. MEMORY_LIMIT.
absl::Status CompleteRecord(const EngineParts& parts, Call& call,
                            std::span<const int32_t> prompt) {
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
      std::move(undone), ChargeOf(parts.context->memory, &EngineMemory::queue));
  const int64_t bytes = PromptBytes(*call.resume.undone);
  return call.resume.undone->charge.TrySet(bytes) ? absl::OkStatus()
                                                  : parts.context->MemoryLimit(bytes);
}

// Stages the prompt after the first `tokens` tokens of the history, and counts
// penalties and bytes; `most`: tokens of the history at the end. MEMORY_LIMIT.
absl::Status StagePrompt(const EngineParts& parts, Call& call, int64_t tokens,
                         int64_t most, std::span<const int32_t> prompt) {
  using Short = SessionPersistence::Short;
  const EngineContext& context = *parts.context;
  ModelRunner& runner = *parts.models.decoder(call.session->model);
  TokenHistory& history = call.session->history;
  const auto size = static_cast<int64_t>(prompt.size());
  // What takes time in proportion to prompt or history is done here, not on the
  // runner's thread.
  const auto reserved = std::min<int64_t>(call.params->max_tokens, kMostReserved);
  if (!parts.MakeRoom(history.BytesOf(size + reserved),
                      call.nameless() ? std::nullopt : std::optional(Short::kResting),
                      [&] { return history.Stage(prompt, reserved); })) {
    // A long prompt says little of others.
    if (call.nameless() && size <= kShortPrompt) runner.RefuseForMemory();
    return engine_errors::MemoryLimit();
  }
  call.prompt_tokens = size;
  MNEMON_RETURN_IF_ERROR(CompleteRecord(parts, call, prompt));
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

// The prompt as it follows `tokens` tokens of the history: a conversation depends on
// them, and the first text of a history begins as texts do. `whole` holds the tokens
// where they are not those of `prompt`.
absl::StatusOr<std::span<const int32_t>> WholePrompt(const EngineParts& parts,
                                                     const Call& call, int64_t tokens,
                                                     std::span<const int32_t> prompt,
                                                     std::vector<int32_t>& whole) {
  const ModelRunner& runner = *parts.models.decoder(call.session->model);
  if (call.conversation) {
    const auto made = call.nameless() ? parts.context->options.clock->WallNow()
                                      : call.session->create_time;
    MNEMON_ASSIGN_OR_RETURN(
        whole, call.conversation->TokensAfter(call.session->history, tokens,
                                              parts.LimitsOf(runner), made));
    return whole;
  }
  if (!call.text_prompt || tokens > 0 || call.resume.after) return prompt;
  const auto before = runner.model().tokenizer->before_text();
  whole.assign(before.begin(), before.end());
  whole.insert(whole.end(), prompt.begin(), prompt.end());
  return whole;
}

// Prepares a call that resumes another one, and fills its stream with what is there.
// True: with the end, too, which `call.delivery.ending` then has. `prompt` gets the
// tokens that are computed again. NOT_FOUND, REQUEST_UNKNOWN; OUT_OF_RANGE,
// INDEX_OUT_OF_RANGE.
absl::StatusOr<bool> TakeUp(const EngineParts& parts, Call& call,
                            std::vector<int32_t>& prompt) {
  Session& session = *call.session;
  const std::shared_ptr<const CallRecord> newest =
      parts.context->directory.calls().NewestCall(session);
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
  const std::optional<int32_t> last =
      tokens.empty() ? std::nullopt : std::optional(tokens.back());
  call.stream->Resume({.first_index = record.base,
                       .prompt_tokens = record.prompt_end - record.base,
                       .seed = call.sampling.seed,
                       .queue_time = record.queue_time},
                      after, std::move(tokens));
  std::optional<CallRecord::End> end;
  if (record.end && !undone && begin == record.end->size) {
    end = record.end;
  } else if (!record.end && last) {
    const int64_t limit = parts.models.decoder(session.model)->context_limit();
    if (auto facts = call.EndWith(*last, begin - 1, limit)) {
      end = {.status = {}, .facts = std::move(facts), .size = begin};
    }
  }
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
  parts.context->callbacks.Post(call.stream);
  return false;
}

absl::Status Prepare(const EngineParts& parts, const std::shared_ptr<Call>& call,
                     std::span<const int32_t> prompt_tokens) {
  Session& session = *call->session;
  ModelRunner& runner = *parts.models.decoder(session.model);
  std::vector<int32_t> undone;
  if (call->resume.after) {
    MNEMON_ASSIGN_OR_RETURN(const bool ended, TakeUp(parts, *call, undone));
    if (ended) {
      // First: the caller who gets the end may come with the next call.
      parts.context->directory.calls().Release(session, /*taken=*/false);
      if (call->settled.exchange(true)) return absl::OkStatus();
      CallDelivery::Ending& ending = *call->delivery.ending;
      static_cast<void>(
          call->stream->Finish(std::move(ending.status), std::move(ending.facts)));
      parts.context->callbacks.Post(call->stream);
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
                          WholePrompt(parts, *call, tokens, prompt_tokens, whole));
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
  MNEMON_RETURN_IF_ERROR(StagePrompt(parts, *call, tokens, most, prompt_tokens));
  return runner.Enqueue(call);
}

// REQUIRES: the call holds its session, if that has a name. On error it holds it no
// more.
absl::Status SubmitHeld(const EngineParts& parts, const std::shared_ptr<Call>& call,
                        std::span<const int32_t> prompt_tokens) {
  const absl::Status queued =
      CatchOutOfMemory({}, [&] { return Prepare(parts, call, prompt_tokens); });
  if (!queued.ok() && !call->stateless()) LetGo(parts, *call);
  EngineObserver* const observer = parts.context->options.observer.get();
  if (observer && queued.ok() && call->resume.after) {
    observer->OnResumed(call->session->model);
  }
  return queued;
}

// SubmitHeld, later where the state of the session comes from the store first.
absl::Status SubmitRestored(const EngineParts& parts, const std::shared_ptr<Call>& call,
                            std::span<const int32_t> prompt_tokens) {
  if (!SessionLoader::CanRestore(*call->session)) {
    return SubmitHeld(parts, call, prompt_tokens);
  }
  bool begun = false;
  const absl::Status status = CatchOutOfMemory({}, [&] {
    // Called whatever happens to the state, which can be computed again.
    const OnAnswer<bool> restored =
        [&parts, call,
         prompt =
             std::vector(prompt_tokens.begin(), prompt_tokens.end())](const auto&) {
          absl::Status status = SubmitHeld(parts, call, prompt);
          if (!status.ok() && call->stream->Finish(std::move(status), std::nullopt)) {
            call->stream->RunCallback();
          }
        };
    begun = true;
    parts.persistence->loader().Restore(call->session, [restored] { restored(true); });
    return absl::OkStatus();
  });
  if (begun) return absl::OkStatus();
  LetGo(parts, *call);
  return status;
}

// Whether the call holds its session, or would after another one has given way.
enum class Entry { kHeld, kAfterAnother, kBusy };

absl::StatusOr<Entry> Enter(const EngineParts& parts, Call& call) {
  Session& session = *call.session;
  SessionDirectory& directory = parts.context->directory;
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

// After the task that made another call give way. A resume waits for a call before it
// that leaves the session.
void SubmitAfterOther(const EngineParts& parts, const std::shared_ptr<Call>& call,
                      const std::vector<int32_t>& prompt, const absl::Status& ended) {
  const absl::Status status = CatchOutOfMemory({}, [&]() -> absl::Status {
    MNEMON_RETURN_IF_ERROR(ended);
    MNEMON_ASSIGN_OR_RETURN(const Entry entry, Enter(parts, *call));
    if (entry == Entry::kHeld) return SubmitRestored(parts, call, prompt);
    if (call->resume.after) {
      CallbackList turn;
      turn.Add(MakeCallback([&parts, call, prompt] {
        SubmitAfterOther(parts, call, prompt, absl::OkStatus());
      }));
      if (parts.context->directory.calls().AwaitTurn(*call->session,
                                                     call->params->request_id, turn)) {
        return absl::OkStatus();
      }
    }
    return parts.Busy(*call->session);
  });
  if (!status.ok() && call->stream->Finish(status, std::nullopt)) {
    call->stream->RunCallback();
  }
}

}  // namespace

absl::Status SubmitCall(const EngineParts& parts, const std::shared_ptr<Call>& call,
                        std::span<const int32_t> prompt_tokens) {
  if (call->stateless()) return SubmitHeld(parts, call, prompt_tokens);
  Session& session = *call->session;
  if (session.journal) MNEMON_RETURN_IF_ERROR(session.journal->status());
  MNEMON_ASSIGN_OR_RETURN(const Entry entry, Enter(parts, *call));
  if (entry == Entry::kHeld) return SubmitRestored(parts, call, prompt_tokens);
  if (entry == Entry::kBusy) return parts.Busy(session);
  const OnAnswer<bool> on_done =
      [&parts, call, prompt = std::vector(prompt_tokens.begin(), prompt_tokens.end())](
          const absl::StatusOr<bool>& ended) {
        SubmitAfterOther(parts, call, prompt, ended.status());
      };
  MNEMON_RETURN_IF_ERROR(parts.Begin(WaiterKind::kGiveWay, on_done, [&] {
    parts.models.decoder(session.model)
        ->Do(MakeGiveWayTask(call->session,
                             call->resume.after ? call->params->request_id : "",
                             call->resume.number, on_done));
    return absl::OkStatus();
  }));
  // The parts to score are counted from the history that the call holds.
  return call->scoring ? parts.Busy(session) : absl::OkStatus();
}

}  // namespace mnemon
