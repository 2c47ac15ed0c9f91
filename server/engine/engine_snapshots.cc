// SPDX-License-Identifier: MIT
// Export, import and proof of sessions.
#include <new>
#include <utility>

#include "base/out_of_memory.h"
#include "base/status_macros.h"
#include "base/strings.h"
#include "server/engine/engine.h"
#include "server/engine/engine_errors.h"
#include "server/engine/request_check.h"
#include "server/engine/session_record.h"
#include "server/engine/session_settings.h"
#include "server/engine/session_snapshots.h"

namespace mnemon {
namespace {

// The consumer of a stream without tokens: waits for its end.
class EndOfStream {
 public:
  explicit EndOfStream(OneAnswer<absl::Status> on_end) : on_end_(std::move(on_end)) {}

  void Set(std::shared_ptr<TokenStream> stream) { stream_ = std::move(stream); }
  // What is due: the end, or before it how far the prompt is.
  void Take() {
    const absl::StatusOr<TokenChunk> chunk = CatchOutOfMemory(
        {}, [&]() -> absl::StatusOr<TokenChunk> { return stream_->Take(); });
    if (chunk.ok() && !chunk->finished) return;
    stream_ = nullptr;
    std::exchange(on_end_, {})(chunk.ok() ? chunk->status : chunk.status());
  }

 private:
  OneAnswer<absl::Status> on_end_;
  std::shared_ptr<TokenStream> stream_;
};

}  // namespace

std::shared_ptr<Session> Engine::MakeCopy(size_t model) const {
  return std::make_shared<Session>("", model, nullptr, context_->memory,
                                   &EngineMemory::prompts);
}

absl::StatusOr<std::shared_ptr<void>> Engine::CountTransfer() {
  // What was exported may outlive the engine.
  if (transfers_->fetch_add(1) >= kTransfers) {
    --*transfers_;
    return engine_errors::TransferLimit(kTransfers);
  }
  return std::shared_ptr<void>(nullptr,
                               [transfers = transfers_](void*) { --*transfers; });
}

template <class T>
absl::StatusOr<OnAnswer<T>> Engine::BeginTransfer(OnAnswer<T> on_done) {
  MNEMON_ASSIGN_OR_RETURN(const std::shared_ptr<void> count, CountTransfer());
  // Counted until nothing holds it any more.
  return OnAnswer<T>([count, on_done = std::move(on_done)](absl::StatusOr<T> outcome) {
    on_done(std::move(outcome));
  });
}

absl::Status Engine::ExportSession(const std::string& id,
                                   OnAnswer<ExportedSession> on_done) {
  return Begin(WaiterKind::kTransfer, on_done, [&]() -> absl::Status {
    MNEMON_RETURN_IF_ERROR(CheckSessionId(id, "name"));
    RemoveExpired();
    MNEMON_ASSIGN_OR_RETURN(const std::shared_ptr<Session> session, FindSession(id));
    const std::shared_ptr<Session> copy = MakeCopy(session->model);
    MNEMON_ASSIGN_OR_RETURN(const std::shared_ptr<void> transfer, CountTransfer());
    const SessionDirectory::Facts kept = context_->directory.FactsOf(*session);
    const std::string record =
        FormatSessionRecord({.ttl = kept.ttl, .sampling = kept.sampling});
    const auto done = [this, session, transfer, on_done](auto snapshot) {
      if (!snapshot.ok()) return on_done(snapshot.status());
      Report(SessionEvent::kExport);
      on_done(CatchOutOfMemory({}, [&]() -> absl::StatusOr<ExportedSession> {
        return ExportedSession{.facts = FactsOf(*session),
                               .snapshot = std::move(snapshot->bytes),
                               .charge = std::move(snapshot->charge),
                               .transfer = transfer};
      }));
    };
    WithState(session, [this, session, copy, record, done] {
      ExportSnapshot({.runner = runners_[session->model].decoder, .context = context_},
                     session, copy, {}, record, done);
    });
    return absl::OkStatus();
  });
}

absl::Status Engine::ImportSession(ImportSessionRequest request,
                                   OnAnswer<SessionFacts> on_done) {
  return Begin(WaiterKind::kTransfer, on_done, [&]() -> absl::Status {
    if (!request.id.empty()) {
      MNEMON_RETURN_IF_ERROR(CheckSessionId(request.id, "session_id"));
    }
    MNEMON_RETURN_IF_ERROR(CheckRequestId(request.request_id));
    MNEMON_ASSIGN_OR_RETURN(const size_t model, FindDecoder(request.model));
    const int64_t vocab = runners_[model].decoder->vocab();
    MNEMON_RETURN_IF_ERROR(
        CheckSettings(request.settings, vocab, *context_->options.clock));
    MNEMON_ASSIGN_OR_RETURN(std::shared_ptr<Session> session,
                            MakeSession(request.id, model));
    MNEMON_RETURN_IF_ERROR(MakeDurable(session, request.settings.durability,
                                       default_durability(),
                                       /*has_history=*/true));
    session->request_id = request.request_id;
    if (!request.request_id.empty()) {
      session->request_text = StrCat("import ", model, " ", TextOf(request.settings));
    }
    MNEMON_ASSIGN_OR_RETURN(on_done, BeginTransfer(std::move(on_done)));
    const Session* const fresh = session.get();
    MNEMON_ASSIGN_OR_RETURN(const std::shared_ptr<Session> before,
                            MadeBefore(request.request_id));
    ImportSnapshot(
        {.runner = runners_[model].decoder, .context = context_},
        std::move(request.snapshot), std::move(session),
        [this, vocab, settings = request.settings](
            Session& imported, const std::string& text) -> absl::Status {
          MNEMON_ASSIGN_OR_RETURN(const SessionRecord record, ParseSessionRecord(text));
          const SessionSettings kept{.ttl = record.ttl, .sampling = record.sampling};
          MNEMON_RETURN_IF_ERROR(CheckSettings(kept, vocab, *context_->options.clock));
          Apply(WithDefaults(settings, kept), context_->options, imported);
          return absl::OkStatus();
        },
        [this, fresh, before, on_done = std::move(on_done)](auto made) {
          if (!made.ok()) return on_done(made.status());
          if (made->get() == fresh) Report(SessionEvent::kImport);
          changed_.notify_all();
          if (persistence_) persistence_->RequestSnapshot(*made);
          AnswerWhenMade(*made, made->get() == fresh, on_done);
        });
    return absl::OkStatus();
  });
}

absl::Status Engine::VerifySession(const VerifySessionRequest& request,
                                   OnAnswer<VerifiedSession> on_done) {
  return Begin(WaiterKind::kTransfer, on_done, [&]() -> absl::Status {
    MNEMON_RETURN_IF_ERROR(CheckSessionId(request.session, "name"));
    RemoveExpired();
    MNEMON_ASSIGN_OR_RETURN(std::shared_ptr<Session> session,
                            FindSession(request.session));
    const size_t model = session->model;
    const std::shared_ptr<Session> copy = MakeCopy(model);
    const std::shared_ptr<Session> replayed = MakeCopy(model);
    MNEMON_ASSIGN_OR_RETURN(on_done, BeginTransfer(std::move(on_done)));
    BeginReplay begin;
    if (request.replay) {
      begin = [this](const std::shared_ptr<Session>& scratch,
                     std::function<void(absl::Status)> on_end) {
        return ReplayHistory(scratch, std::move(on_end));
      };
    }
    const auto done = [this, on_done = std::move(on_done)](auto outcome) {
      if (outcome.ok()) {
        const bool sound =
            outcome->stored_form_valid && outcome->replay_equal.value_or(true);
        Report(sound ? SessionEvent::kVerify : SessionEvent::kVerifyFail);
      }
      on_done(std::move(outcome));
    };
    WithState(session, [this, session, copy, replayed, begin, done] {
      VerifySnapshot({.runner = runners_[session->model].decoder, .context = context_},
                     session, copy, replayed, begin, done);
    });
    return absl::OkStatus();
  });
}

void Engine::WithState(const std::shared_ptr<Session>& session,
                       const std::function<void()>& next) const {
  if (!persistence_ || !persistence_->CanRestore(*session)) return next();
  // Comes whatever happens to the state.
  const OnAnswer<bool> restored = [this, session, next](const auto&) {
    context_->directory.Release(*session, /*taken=*/false);
    next();
  };
  // A call that holds it brings the state itself.
  const absl::StatusOr<bool> held = context_->directory.Hold(*session, "");
  if (!held.ok() || !*held) {
    restored.Dismiss();
    return next();
  }
  persistence_->Restore(session, [restored] { restored(true); });
}

ByteCharge Engine::QueueCharge() const {
  return ChargeOf(context_->memory, &EngineMemory::queue);
}

absl::Status Engine::ReplayHistory(const std::shared_ptr<Session>& session,
                                   OneAnswer<absl::Status> on_end) const {
  auto call = std::make_shared<Call>();
  call->session = session;
  call->keeps_state = true;
  auto end = std::make_shared<EndOfStream>(std::move(on_end));
  OpenStream(call, nullptr, {}, [end] { end->Take(); });
  end->Set(call->stream);
  const absl::Status taken = Submit(call, {});
  if (!taken.ok()) end->Set(nullptr);  // they hold each other
  return taken;
}

}  // namespace mnemon
