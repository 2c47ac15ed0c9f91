// SPDX-License-Identifier: MIT
// The methods of Engine that run a decoder: each request is checked, and becomes a
// Call.
#include "server/engine/decoder_calls.h"

#include <algorithm>
#include <limits>
#include <new>
#include <utility>

#include "base/error.h"
#include "base/out_of_memory.h"
#include "base/quote.h"
#include "base/sha256.h"
#include "base/status_macros.h"
#include "base/strings.h"
#include "server/calls/conversation_prompt.h"
#include "server/engine/engine.h"
#include "server/engine/named_sessions.h"
#include "server/requests/engine_errors.h"
#include "server/requests/random.h"
#include "server/requests/request_check.h"
#include "server/sessions/session_journal.h"

namespace mnemon {
namespace {

uint64_t SeedFor(const std::string& request_id) {
  if (request_id.empty()) return RandomNumber();
  return std::stoull(Sha256Hex(request_id).substr(0, 16), nullptr, 16);
}

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

// The consumer of a stream without tokens, which waits for its end.
struct EndOfStream {
  OnSynced on_end;
  std::shared_ptr<TokenStream> stream = nullptr;

  // Takes what is due: the end, or before it how far the prompt is.
  void Take() {
    const absl::StatusOr<TokenChunk> chunk = CatchOutOfMemory(
        {}, [&]() -> absl::StatusOr<TokenChunk> { return stream->Take(); });
    if (chunk.ok() && !chunk->finished) return;
    stream = nullptr;
    std::exchange(on_end, {})(chunk.ok() ? chunk->status : chunk.status());
  }
};

// FAILED_PRECONDITION, NO_INTROSPECTION: the model does not have one of the fields.
absl::Status CheckIntrospection(const IntrospectionFields& fields,
                                const EngineModel& model) {
  const IntrospectionFields there = model.decoder->introspection();
  for (const IntrospectionField& one : kIntrospectionFields) {
    if (!(fields.*one.field) || there.*one.field) continue;
    const std::string has =
        there.any()
            ? StrCat("it has ", NamesOf(there))
            : "only step forms on the CPU (--decoder step, --device cpu) have any";
    return MakeError(
        absl::StatusCode::kFailedPrecondition,
        StrCat("model ", Quoted(model.facts.name), " has no ", one.name, ": ", has),
        {.reason = "NO_INTROSPECTION", .field = "introspection"});
  }
  return absl::OkStatus();
}

// The session of that id, or a new one for a call without.
absl::StatusOr<std::shared_ptr<Session>> SessionFor(const EngineParts& parts,
                                                    NamedSessions& named,
                                                    const std::string& id,
                                                    const std::string& model) {
  // Refused at once rather than after the work of encoding a prompt.
  MNEMON_RETURN_IF_ERROR(parts.models.CheckOpen());
  if (id.empty()) {
    MNEMON_ASSIGN_OR_RETURN(const size_t index, parts.models.FindDecoder(model));
    return parts.MakeUnnamed(index);
  }
  MNEMON_RETURN_IF_ERROR(CheckSessionId(id, "session"));
  MNEMON_ASSIGN_OR_RETURN(std::shared_ptr<Session> session, named.FindWithHistory(id));
  if (model.empty()) return session;
  MNEMON_ASSIGN_OR_RETURN(const size_t index, parts.models.Find(model));
  if (index != session->model) {
    return MakeError(absl::StatusCode::kFailedPrecondition,
                     StrCat("session ", Quoted(id), " belongs to model ",
                            Quoted(parts.models.model(session->model).facts.name)),
                     {.reason = "MODEL_MISMATCH", .field = "model"});
  }
  return session;
}

// The call that the request resumes or repeats; null: the request is a new call.
absl::StatusOr<std::shared_ptr<const CallRecord>> FindResumed(
    const EngineParts& parts, const GenerateRequest& request, const Session& session) {
  using IdUse = SessionCalls::IdUse;
  const SessionDirectory& directory = parts.context->directory;
  if (request.resume_after) MNEMON_RETURN_IF_ERROR(CheckResume(request));
  if (session.id.empty() || request.request_id.empty()) return nullptr;
  const std::shared_ptr<const CallRecord> newest =
      directory.calls().NewestCall(session);
  if (newest && newest->params->request_id == request.request_id) {
    if (!request.resume_after && newest->params->request_hash != HashOf(request)) {
      return engine_errors::RequestDiffers(session.id);
    }
    return newest;
  }
  if (!request.resume_after) return nullptr;
  switch (directory.calls().UseOf(session, request.request_id)) {
    case IdUse::kRemembered:
      return engine_errors::RequestRepeated(session.id);
    case IdUse::kHolds:  // and waits to begin
      return parts.Busy(session);
    case IdUse::kUnknown:
      break;
  }
  return engine_errors::RequestUnknown(session.id);
}

// All that decides the tokens of a new call, but for its prompt; `request_hash` is
// empty unless it can be resumed. `conversation` may be null. REQUIRES: a checked
// request.
CallParams ParamsOf(const EngineParts& parts, const GenerateRequest& request,
                    const Session& session, const ConversationPrompt* conversation) {
  CallParams params{
      .request_id = request.request_id,
      .max_tokens = request.max_tokens.value_or(parts.context->options.max_tokens),
      .stop_tokens = request.stop_tokens,
      .stop_strings = request.stop_strings,
      .time_limit = request.time_limit,
      .logprobs = request.logprobs,
      .introspection = request.introspection,
      .on_disconnect = request.on_disconnect};
  std::sort(params.stop_tokens.begin(), params.stop_tokens.end());
  if (conversation) {
    for (std::string& stop : conversation->stop_strings()) {
      params.stop_strings.push_back(std::move(stop));
    }
  }
  if (!request.ignore_end) {
    params.end_tokens = parts.models.model(session.model).facts.generation.end_tokens;
  }
  params.sampling = {.values = request.sampling, .seed = request.seed};
  if (request.session_sampling) {
    const auto own = parts.context->directory.FactsOf(session).sampling;
    if (own) params.sampling = *own;
  }
  if (!params.sampling.seed) params.sampling.seed = SeedFor(request.request_id);
  if (!request.session.empty() && !request.request_id.empty()) {
    params.request_hash = HashOf(request);
  }
  return params;
}

void OpenStream(const EngineParts& parts, const std::shared_ptr<Call>& call,
                const Tokenizer* tokenizer, std::function<void()> on_ready) {
  const EngineOptions& options = parts.context->options;
  call->arrival = options.clock->Now();
  call->idle_arrival = options.idle_clock ? options.idle_clock->Now() : call->arrival;
  TokenStream::Options stream{
      .tokenizer = tokenizer,
      .stop_strings = call->params->stop_strings,
      .on_ready = std::move(on_ready),
      .charge = ChargeOf(parts.context->memory, &EngineMemory::output)};
  const size_t model = call->session->model;
  const Session& changes = call->commits() ? *call->scoring->source : *call->session;
  stream.gated = changes.journal && changes.journal->durable();
  const auto self = std::make_shared<std::weak_ptr<TokenStream>>();
  stream.on_event = [weak_runner = std::weak_ptr(parts.models.decoder(model)),
                     weak_call = std::weak_ptr(call), self](StreamEvent event) {
    const auto runner = weak_runner.lock();
    const auto event_of = weak_call.lock();
    if (runner && event_of) return runner->OnStreamEvent(event_of, event);
    // The session was removed, and nobody else ends the stream.
    const auto left = self->lock();
    if (left && event == StreamEvent::kCancelled &&
        left->Finish(engine_errors::Cancelled(), std::nullopt)) {
      left->RunCallback();
    }
  };
  stream.report_empty = call->commits();
  // A call that scores generates nothing.
  if (!call->scoring) {
    // A fast model would spend its processors on messages. Not when scoring: the caller
    // may wait for an answer before it sends more.
    stream.interval = CallbackThreads::kDelay;
    stream.timer = RequestTimer(options.observer, *options.clock, model);
  }
  call->stream = std::make_shared<TokenStream>(std::move(stream));
  *self = call->stream;
  if (call->commits()) {
    // Only the end depends on something that is stored.
    static_cast<void>(call->stream->Release(std::numeric_limits<int64_t>::max(),
                                            /*finish=*/false, call->arrival));
  }
}

// A call with its stream, but for what the history of its session decides.
std::shared_ptr<Call> MakeCall(const EngineParts& parts,
                               std::shared_ptr<Session> session,
                               std::shared_ptr<const CallParams> params,
                               std::optional<Call::Time> deadline,
                               std::function<void()> on_ready) {
  const Tokenizer* const tokenizer = parts.models.model(session->model).tokenizer;
  auto call = std::make_shared<Call>();
  call->session = std::move(session);
  call->sampling = Rounded(params->sampling.values);
  call->sampling.seed = *params->sampling.seed;
  call->deadline = deadline;
  call->params = std::move(params);
  OpenStream(parts, call, tokenizer, std::move(on_ready));
  return call;
}

absl::StatusOr<std::shared_ptr<TokenStream>> ResumeCall(
    const EngineParts& parts, std::shared_ptr<Session> session,
    const CallRecord& record, const GenerateRequest& request,
    std::function<void()> on_ready) {
  MNEMON_RETURN_IF_ERROR(CheckIntrospection(record.params->introspection,
                                            parts.models.model(session->model)));
  const std::shared_ptr<Call> call = MakeCall(parts, std::move(session), record.params,
                                              request.deadline, std::move(on_ready));
  call->resume.after = request.resume_after.value_or(-1);
  call->resume.number = parts.context->directory.calls().BeginResume(*call->session);
  const absl::Status submitted = SubmitCall(parts, call, {});
  // Nobody else has its stream yet.
  if (absl::IsCancelled(submitted)) return engine_errors::StreamResumed();
  MNEMON_RETURN_IF_ERROR(submitted);
  return call->stream;
}

// SessionCalls::Hold; ABORTED, SESSION_BUSY, when another call holds it.
absl::Status HoldFree(const EngineParts& parts, Session& session,
                      const std::string& request_id) {
  MNEMON_ASSIGN_OR_RETURN(const bool held,
                          parts.context->directory.calls().Hold(session, request_id));
  return held ? absl::OkStatus() : parts.Busy(session);
}

// Gives a call that scores a copy of its session, which it holds from now on if it
// commits.
absl::Status CopySource(const EngineParts& parts, const ScoreRequest& request,
                        Call& call) {
  SessionDirectory& directory = parts.context->directory;
  const std::shared_ptr<Session> source = call.session;
  if (request.commit && source->journal) {
    MNEMON_RETURN_IF_ERROR(source->journal->status());
  }
  // A copy that is committed becomes the session's history.
  auto copy = std::make_shared<Session>(
      "", source->model, parts.context->memory,
      request.commit ? &EngineMemory::histories : &EngineMemory::prompts);
  absl::Status held = HoldFree(parts, *source, request.request_id);
  const bool repeated =
      !held.ok() && directory.calls().ScoredFrom(*source, request.request_id);
  if (repeated) held = HoldFree(parts, *source, "");
  MNEMON_RETURN_IF_ERROR(held);
  // Held while its history is copied, so that it does not change.
  const absl::Status copied = CatchOutOfMemory({}, [&]() -> absl::Status {
    int64_t tokens = source->history.size();
    if (repeated) {
      const auto from = directory.calls().ScoredFrom(*source, request.request_id);
      if (!from) return engine_errors::RequestRepeated(source->id);
      tokens = *from;
    } else if (request.expected_tokens.value_or(tokens) != tokens) {
      return engine_errors::TokenCountMismatch(source->id, *request.expected_tokens,
                                               tokens);
    }
    return copy->history.ShareOf(source->history, tokens)
               ? absl::OkStatus()
               : parts.context->MemoryLimit(tokens *
                                            static_cast<int64_t>(sizeof(int32_t)));
  });
  call.scoring->commit = copied.ok() && request.commit && !repeated;
  // A repetition is computed from the copy: the state of the source has gone on.
  if (!repeated) call.scoring->source = source;
  call.scoring->source_version = source->history.version();
  call.session = std::move(copy);
  if (!call.commits()) directory.calls().Release(*source, /*taken=*/false);
  return copied;
}

}  // namespace

absl::StatusOr<std::shared_ptr<TokenStream>> Engine::Generate(
    const GenerateRequest& request, std::function<void()> on_ready) try {
  MNEMON_ASSIGN_OR_RETURN(std::shared_ptr<Session> session,
                          SessionFor(*parts_, *named_, request.session, request.model));
  MNEMON_ASSIGN_OR_RETURN(const auto resumed, FindResumed(*parts_, request, *session));
  if (resumed) {
    return ResumeCall(*parts_, session, *resumed, request, std::move(on_ready));
  }
  const ModelRunner& runner = *parts_->models.decoder(session->model);
  const CallLimits limits = parts_->LimitsOf(runner);
  MNEMON_RETURN_IF_ERROR(CheckCall(request, limits));
  MNEMON_RETURN_IF_ERROR(CheckIntrospection(request.introspection, runner.model()));
  const Tokenizer* const tokenizer = runner.model().tokenizer;
  if (!request.stop_strings.empty() && !tokenizer) {
    return NeedsTokenizer("stop_strings");
  }

  std::shared_ptr<const ConversationPrompt> conversation;
  std::vector<int32_t> prompt;
  if (const auto* const messages = std::get_if<ConversationText>(&request.prompt)) {
    MNEMON_ASSIGN_OR_RETURN(conversation,
                            ConversationPrompt::Make(*messages, runner.model()));
  } else {
    MNEMON_ASSIGN_OR_RETURN(prompt, PromptTokens(request.prompt, tokenizer, limits));
  }
  const auto params = std::make_shared<const CallParams>(
      ParamsOf(*parts_, request, *session, conversation.get()));
  const std::shared_ptr<Call> call =
      MakeCall(*parts_, session, params, request.deadline, std::move(on_ready));
  call->expected_position = request.expected_position;
  call->text_prompt = IsText(request.prompt);
  call->conversation = std::move(conversation);
  if (!params->request_hash.empty()) {
    call->resume.record = std::make_shared<CallRecord>(CallRecord{.params = params});
  }
  MNEMON_RETURN_IF_ERROR(SubmitCall(*parts_, call, prompt));
  return call->stream;
} catch (const std::bad_alloc&) {
  return OutOfMemoryError();
}

absl::StatusOr<ScoreCall> Engine::Score(const ScoreRequest& request,
                                        std::function<void()> on_ready) try {
  MNEMON_ASSIGN_OR_RETURN(std::shared_ptr<Session> session,
                          SessionFor(*parts_, *named_, request.session, request.model));
  const std::shared_ptr<ModelRunner>& runner = parts_->models.decoder(session->model);
  MNEMON_RETURN_IF_ERROR(CheckCandidates(request.candidates, runner->vocab()));
  MNEMON_RETURN_IF_ERROR(CheckRequestId(request.request_id));
  if (!request.request_id.empty() && (!request.commit || request.session.empty())) {
    return InvalidField("request_id", "only a call that commits has a request_id");
  }
  auto call = std::make_shared<Call>();
  call->scoring.emplace();
  call->params = std::make_shared<const CallParams>(
      CallParams{.request_id = request.request_id,
                 .logprobs = {.wanted = true, .candidates = request.candidates}});
  call->deadline = request.deadline;
  call->session = std::move(session);
  if (!request.session.empty()) {
    MNEMON_RETURN_IF_ERROR(CopySource(*parts_, request, *call));
  }
  ScoreCall scored;
  const absl::Status queued = CatchOutOfMemory({}, [&] {
    OpenStream(*parts_, call, nullptr, std::move(on_ready));
    scored = MakeScoreCall(runner, call, parts_->LimitsOf(*runner));
    return SubmitCall(*parts_, call, {});
  });
  if (!queued.ok() && call->commits()) {
    parts_->context->directory.calls().Release(*call->scoring->source, /*taken=*/false);
  }
  MNEMON_RETURN_IF_ERROR(queued);
  return scored;
} catch (const std::bad_alloc&) {
  return OutOfMemoryError();
}

void Engine::RecordRefusal(const GenerateRequest& request, const absl::Status& status) {
  EngineObserver* const observer = parts_->context->options.observer.get();
  if (observer == nullptr) return;
  absl::StatusOr<size_t> model = parts_->models.Find(request.model);
  if (!model.ok() && !request.session.empty()) {
    const auto session = parts_->context->directory.Find(request.session);
    if (session.ok()) model = (*session)->model;
  }
  observer->OnRefused(model.ok() ? std::optional(*model) : std::nullopt, status);
}

absl::Status ReplayHistory(const EngineParts& parts,
                           const std::shared_ptr<Session>& session, OnSynced on_end) {
  auto call = std::make_shared<Call>();
  call->session = session;
  call->params = std::make_shared<const CallParams>();
  call->keeps_state = true;
  const auto end = std::make_shared<EndOfStream>(EndOfStream{std::move(on_end)});
  OpenStream(parts, call, nullptr, [end] { end->Take(); });
  end->stream = call->stream;
  const absl::Status taken = SubmitCall(parts, call, {});
  if (!taken.ok()) end->stream = nullptr;  // they hold each other
  return taken;
}

}  // namespace mnemon
