// SPDX-License-Identifier: MIT
// The methods of Engine that read and write states of sessions.
#include <utility>

#include "base/out_of_memory.h"
#include "base/status_macros.h"
#include "base/strings.h"
#include "server/durability/session_snapshots.h"
#include "server/engine/decoder_calls.h"
#include "server/engine/engine.h"
#include "server/engine/engine_parts.h"
#include "server/engine/named_sessions.h"
#include "server/requests/engine_errors.h"
#include "server/requests/request_check.h"
#include "server/sessions/stored_session.h"

namespace mnemon {
namespace {

// Counts one transfer as long as it is held. TRANSFER_LIMIT.
absl::StatusOr<std::shared_ptr<void>> CountIn(
    const std::shared_ptr<std::atomic<int32_t>>& transfers) {
  if (transfers->fetch_add(1) >= Engine::kTransfers) {
    --*transfers;
    return engine_errors::TransferLimit(Engine::kTransfers);
  }
  return std::shared_ptr<void>(nullptr, [transfers](void*) { --*transfers; });
}

// Calls `next`, perhaps on another thread, once the state of a session at rest is back
// from the store, or cannot be brought back.
void WithState(const EngineParts& parts, const std::shared_ptr<Session>& session,
               const std::function<void()>& next) {
  if (!SessionLoader::CanRestore(*session)) return next();
  // Called whatever happens to the state.
  const OnAnswer<bool> restored = [&parts, session, next](const auto&) {
    parts.context->directory.calls().Release(*session, /*taken=*/false);
    next();
  };
  // A call that holds it brings the state itself.
  const absl::StatusOr<bool> held = parts.context->directory.calls().Hold(*session, "");
  if (!held.ok() || !*held) {
    restored.Dismiss();
    return next();
  }
  parts.persistence->loader().Restore(session, [restored] { restored(true); });
}

}  // namespace

absl::Status Engine::ExportSession(const std::string& id,
                                   OnAnswer<ExportedSession> on_done) {
  return parts_->Begin(WaiterKind::kTransfer, on_done, [&]() -> absl::Status {
    MNEMON_RETURN_IF_ERROR(CheckSessionId(id, "name"));
    MNEMON_ASSIGN_OR_RETURN(const std::shared_ptr<Session> session,
                            named_->FindWithHistory(id));
    MNEMON_ASSIGN_OR_RETURN(const std::shared_ptr<void> transfer, CountIn(transfers_));
    const SessionDirectory::Facts kept = parts_->context->directory.FactsOf(*session);
    const std::string record =
        FormatSessionRecord({.ttl = kept.ttl, .sampling = kept.sampling});
    const auto done = [this, session, transfer, on_done](auto snapshot) {
      if (!snapshot.ok()) return on_done(snapshot.status());
      parts_->Report(SessionEvent::kExport);
      on_done(CatchOutOfMemory({}, [&]() -> absl::StatusOr<ExportedSession> {
        return ExportedSession{.facts = parts_->FactsOf(*session),
                               .snapshot = std::move(snapshot->bytes),
                               .charge = std::move(snapshot->charge),
                               .transfer = transfer};
      }));
    };
    WithState(*parts_, session, [this, session, record, done] {
      ExportSnapshot({.runner = parts_->models.decoder(session->model),
                      .context = parts_->context},
                     session, {}, record, done);
    });
    return absl::OkStatus();
  });
}

absl::Status Engine::ImportSession(ImportSessionRequest request,
                                   OnAnswer<SessionFacts> on_done) {
  return parts_->Begin(WaiterKind::kTransfer, on_done, [&]() -> absl::Status {
    MNEMON_RETURN_IF_ERROR(NamedSessions::CheckIds(request.id, request.request_id));
    MNEMON_ASSIGN_OR_RETURN(const size_t model,
                            parts_->models.FindDecoder(request.model));
    MNEMON_RETURN_IF_ERROR(parts_->CheckSettings(request.settings, model));
    const Durability durability =
        request.settings.durability.value_or(named_->default_durability());
    MNEMON_ASSIGN_OR_RETURN(
        std::shared_ptr<Session> session,
        named_->Make(request.id, model, durability, /*has_history=*/true));
    session->request_id = request.request_id;
    if (!request.request_id.empty()) {
      session->request_text = StrCat("import ", model, " ", TextOf(request.settings));
    }
    MNEMON_ASSIGN_OR_RETURN(const std::shared_ptr<void> transfer, CountIn(transfers_));
    on_done = [transfer, on_done](absl::StatusOr<SessionFacts> facts) {
      on_done(std::move(facts));
    };
    const Session* const fresh = session.get();
    MNEMON_ASSIGN_OR_RETURN(const std::shared_ptr<Session> before,
                            named_->FindMadeBy(request.request_id));
    ImportSnapshot(
        {.runner = parts_->models.decoder(model), .context = parts_->context},
        std::move(request.snapshot), std::move(session),
        [this, model, settings = request.settings](
            Session& imported, const std::string& text) -> absl::Status {
          MNEMON_ASSIGN_OR_RETURN(const SessionSettings kept, ParseSessionRecord(text));
          MNEMON_RETURN_IF_ERROR(parts_->CheckSettings(kept, model));
          Apply(WithDefaults(settings, kept), parts_->context->options, imported);
          return absl::OkStatus();
        },
        [this, fresh, before, on_done](const auto& made) {
          named_->AnswerWhenMade(made, fresh, SessionEvent::kImport, on_done);
        });
    return absl::OkStatus();
  });
}

absl::Status Engine::VerifySession(const VerifySessionRequest& request,
                                   OnAnswer<VerifiedSession> on_done) {
  return parts_->Begin(WaiterKind::kTransfer, on_done, [&]() -> absl::Status {
    MNEMON_RETURN_IF_ERROR(CheckSessionId(request.session, "name"));
    MNEMON_ASSIGN_OR_RETURN(std::shared_ptr<Session> session,
                            named_->FindWithHistory(request.session));
    MNEMON_ASSIGN_OR_RETURN(const std::shared_ptr<void> transfer, CountIn(transfers_));
    BeginReplay begin;
    if (request.replay) {
      begin = [this](const std::shared_ptr<Session>& scratch,
                     std::function<void(absl::Status)> on_end) {
        return ReplayHistory(*parts_, scratch, std::move(on_end));
      };
    }
    const auto done = [this, transfer, on_done](auto outcome) {
      if (outcome.ok()) {
        const bool sound =
            outcome->stored_form_valid && outcome->replay_equal.value_or(true);
        parts_->Report(sound ? SessionEvent::kVerify : SessionEvent::kVerifyFail);
      }
      on_done(std::move(outcome));
    };
    WithState(*parts_, session, [this, session, begin, done] {
      VerifySnapshot({.runner = parts_->models.decoder(session->model),
                      .context = parts_->context},
                     session, begin, done);
    });
    return absl::OkStatus();
  });
}

}  // namespace mnemon
