// SPDX-License-Identifier: MIT
#include "server/engine/transfers.h"

#include <utility>

#include "base/out_of_memory.h"
#include "base/status_macros.h"
#include "base/strings.h"
#include "server/durability/session_snapshots.h"
#include "server/engine/session_facts.h"
#include "server/requests/engine_errors.h"
#include "server/requests/request_check.h"
#include "server/sessions/session_record.h"
#include "server/sessions/session_settings.h"

namespace mnemon {

absl::StatusOr<std::shared_ptr<void>> Transfers::Count() {
  if (under_way_->fetch_add(1) >= kMost) {
    --*under_way_;
    return engine_errors::TransferLimit(kMost);
  }
  return std::shared_ptr<void>(nullptr,
                               [transfers = under_way_](void*) { --*transfers; });
}

template <class T>
absl::StatusOr<OnAnswer<T>> Transfers::Counted(OnAnswer<T> on_done) {
  MNEMON_ASSIGN_OR_RETURN(const std::shared_ptr<void> count, Count());
  // Counted until nothing holds it any more.
  return OnAnswer<T>([count, on_done = std::move(on_done)](absl::StatusOr<T> outcome) {
    on_done(std::move(outcome));
  });
}

absl::Status Transfers::Export(const std::string& id,
                               OnAnswer<ExportedSession> on_done) {
  return parts_.Begin(WaiterKind::kTransfer, on_done, [&]() -> absl::Status {
    MNEMON_RETURN_IF_ERROR(CheckSessionId(id, "name"));
    MNEMON_ASSIGN_OR_RETURN(const std::shared_ptr<Session> session,
                            named_.FindWithHistory(id));
    const std::shared_ptr<Session> copy = parts_.MakeUnnamed(session->model);
    MNEMON_ASSIGN_OR_RETURN(const std::shared_ptr<void> transfer, Count());
    const SessionDirectory::Facts kept = parts_.context->directory.FactsOf(*session);
    const std::string record =
        FormatSessionRecord({.ttl = kept.ttl, .sampling = kept.sampling});
    const auto done = [this, session, transfer, on_done](auto snapshot) {
      if (!snapshot.ok()) return on_done(snapshot.status());
      parts_.Report(SessionEvent::kExport);
      on_done(CatchOutOfMemory({}, [&]() -> absl::StatusOr<ExportedSession> {
        return ExportedSession{.facts = FactsOf(parts_, *session),
                               .snapshot = std::move(snapshot->bytes),
                               .charge = std::move(snapshot->charge),
                               .transfer = transfer};
      }));
    };
    WithState(session, [this, session, copy, record, done] {
      ExportSnapshot(
          {.runner = parts_.models.decoder(session->model), .context = parts_.context},
          session, copy, {}, record, done);
    });
    return absl::OkStatus();
  });
}

absl::Status Transfers::Import(ImportSessionRequest request,
                               OnAnswer<SessionFacts> on_done) {
  return parts_.Begin(WaiterKind::kTransfer, on_done, [&]() -> absl::Status {
    if (!request.id.empty()) {
      MNEMON_RETURN_IF_ERROR(CheckSessionId(request.id, "session_id"));
    }
    MNEMON_RETURN_IF_ERROR(CheckRequestId(request.request_id));
    MNEMON_ASSIGN_OR_RETURN(const size_t model,
                            parts_.models.FindDecoder(request.model));
    const int64_t vocab = parts_.models.decoder(model)->vocab();
    MNEMON_RETURN_IF_ERROR(
        CheckSettings(request.settings, vocab, *parts_.context->options.clock));
    MNEMON_ASSIGN_OR_RETURN(std::shared_ptr<Session> session,
                            named_.Make(request.id, model));
    MNEMON_RETURN_IF_ERROR(named_.MakeDurable(session, request.settings.durability,
                                              named_.default_durability(),
                                              /*has_history=*/true));
    session->request_id = request.request_id;
    if (!request.request_id.empty()) {
      session->request_text = StrCat("import ", model, " ", TextOf(request.settings));
    }
    MNEMON_ASSIGN_OR_RETURN(on_done, Counted(std::move(on_done)));
    const Session* const fresh = session.get();
    MNEMON_ASSIGN_OR_RETURN(const std::shared_ptr<Session> before,
                            named_.FindMadeBy(request.request_id));
    ImportSnapshot(
        {.runner = parts_.models.decoder(model), .context = parts_.context},
        std::move(request.snapshot), std::move(session),
        [this, vocab, settings = request.settings](
            Session& imported, const std::string& text) -> absl::Status {
          MNEMON_ASSIGN_OR_RETURN(const SessionRecord record, ParseSessionRecord(text));
          const SessionSettings kept{.ttl = record.ttl, .sampling = record.sampling};
          MNEMON_RETURN_IF_ERROR(
              CheckSettings(kept, vocab, *parts_.context->options.clock));
          Apply(WithDefaults(settings, kept), parts_.context->options, imported);
          return absl::OkStatus();
        },
        [this, fresh, before, on_done = std::move(on_done)](auto made) {
          if (!made.ok()) return on_done(made.status());
          if (made->get() == fresh) parts_.Report(SessionEvent::kImport);
          expiry_.Wake();
          if (parts_.persistence) parts_.persistence->RequestSnapshot(*made);
          named_.AnswerWhenMade(*made, made->get() == fresh, on_done);
        });
    return absl::OkStatus();
  });
}

absl::Status Transfers::Verify(const VerifySessionRequest& request,
                               OnAnswer<VerifiedSession> on_done) {
  return parts_.Begin(WaiterKind::kTransfer, on_done, [&]() -> absl::Status {
    MNEMON_RETURN_IF_ERROR(CheckSessionId(request.session, "name"));
    MNEMON_ASSIGN_OR_RETURN(std::shared_ptr<Session> session,
                            named_.FindWithHistory(request.session));
    const size_t model = session->model;
    const std::shared_ptr<Session> copy = parts_.MakeUnnamed(model);
    const std::shared_ptr<Session> replayed = parts_.MakeUnnamed(model);
    MNEMON_ASSIGN_OR_RETURN(on_done, Counted(std::move(on_done)));
    BeginReplay begin;
    if (request.replay) {
      begin = [this](const std::shared_ptr<Session>& scratch,
                     std::function<void(absl::Status)> on_end) {
        return calls_.Replay(scratch, std::move(on_end));
      };
    }
    const auto done = [this, on_done = std::move(on_done)](auto outcome) {
      if (outcome.ok()) {
        const bool sound =
            outcome->stored_form_valid && outcome->replay_equal.value_or(true);
        parts_.Report(sound ? SessionEvent::kVerify : SessionEvent::kVerifyFail);
      }
      on_done(std::move(outcome));
    };
    WithState(session, [this, session, copy, replayed, begin, done] {
      VerifySnapshot(
          {.runner = parts_.models.decoder(session->model), .context = parts_.context},
          session, copy, replayed, begin, done);
    });
    return absl::OkStatus();
  });
}

void Transfers::WithState(const std::shared_ptr<Session>& session,
                          const std::function<void()>& next) const {
  if (!parts_.persistence || !parts_.persistence->CanRestore(*session)) return next();
  // Called whatever happens to the state.
  const OnAnswer<bool> restored = [this, session, next](const auto&) {
    parts_.context->directory.calls().Release(*session, /*taken=*/false);
    next();
  };
  // A call that holds it brings the state itself.
  const absl::StatusOr<bool> held =
      parts_.context->directory.calls().Hold(*session, "");
  if (!held.ok() || !*held) {
    restored.Dismiss();
    return next();
  }
  parts_.persistence->Restore(session, [restored] { restored(true); });
}

}  // namespace mnemon
