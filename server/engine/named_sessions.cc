// SPDX-License-Identifier: MIT
#include "server/engine/named_sessions.h"

#include <utility>

#include "base/status_macros.h"
#include "server/engine/session_facts.h"
#include "server/requests/engine_errors.h"
#include "server/requests/random.h"

namespace mnemon {

absl::StatusOr<std::shared_ptr<Session>> NamedSessions::FindAwake(
    const std::string& id) {
  using Short = SessionPersistence::Short;
  const EngineContext& context = *parts_.context;
  const ByteBudget& sessions = context.memory->small;
  const bool full = sessions.used() > sessions.limit() - Session::kBytes;
  auto found = context.directory.Find(id);
  parts_.MakeRoom(Session::kBytes, full ? Short::kSessions : Short::kResting, [&] {
    if (!absl::IsResourceExhausted(found.status())) return true;
    found = context.directory.Find(id);
    return !absl::IsResourceExhausted(found.status());
  });
  // What comes back makes others leave.
  if (parts_.persistence) parts_.persistence->KeepMemoryFree();
  return found;
}

absl::StatusOr<std::shared_ptr<Session>> NamedSessions::Find(const std::string& id) {
  expiry_.RemoveExpired();
  // A session that cannot be removed just now has expired all the same.
  static_cast<void>(expiry_.Expire(id));
  auto session = FindAwake(id);
  if (!session.ok() && parts_.persistence) {
    MNEMON_RETURN_IF_ERROR(parts_.persistence->CheckId(id));
  }
  return session;
}

absl::StatusOr<std::shared_ptr<Session>> NamedSessions::FindWithHistory(
    const std::string& id) {
  auto session = Find(id);
  if (!parts_.persistence || !session.ok()) return session;
  return parts_.persistence->Use(*session);
}

absl::StatusOr<std::shared_ptr<Session>> NamedSessions::FindMadeBy(
    const std::string& request_id) {
  const std::string id =
      request_id.empty() ? "" : parts_.context->directory.MadeBy(request_id);
  if (id.empty()) return nullptr;
  MNEMON_RETURN_IF_ERROR(expiry_.Expire(id));
  auto made = FindAwake(id);
  if (absl::IsNotFound(made.status())) return nullptr;
  return made;
}

absl::StatusOr<std::shared_ptr<Session>> NamedSessions::Make(const std::string& id,
                                                             size_t model) {
  MNEMON_RETURN_IF_ERROR(parts_.models.CheckOpen());
  expiry_.RemoveExpired();
  MNEMON_RETURN_IF_ERROR(expiry_.Expire(id));
  auto session = std::make_shared<Session>(id.empty() ? RandomId() : id, model,
                                           parts_.context->memory);
  session->drawn_id = id.empty();
  MNEMON_RETURN_IF_ERROR(parts_.ChargeNew(*session, Session::kBytes));
  return session;
}

absl::Status NamedSessions::MakeDurable(const std::shared_ptr<Session>& session,
                                        const std::optional<Durability>& wanted,
                                        Durability otherwise, bool has_history) const {
  const Durability durability = wanted.value_or(otherwise);
  if (!parts_.persistence) {
    return durability == Durability::kNone ? absl::OkStatus()
                                           : engine_errors::NoStore();
  }
  SessionPersistence& persistence = *parts_.persistence;
  MNEMON_RETURN_IF_ERROR(persistence.CheckId(session->id));
  if (durability != Durability::kNone) MNEMON_RETURN_IF_ERROR(persistence.status());
  persistence.Adopt(session, durability, has_history);
  return absl::OkStatus();
}

Durability NamedSessions::default_durability() const {
  return parts_.persistence ? parts_.context->options.durability : Durability::kNone;
}

void NamedSessions::AnswerWhenMade(const std::shared_ptr<Session>& session, bool fresh,
                                   OnAnswer<SessionFacts> on_done) const {
  if (!fresh) return AnswerWhenSynced(parts_, session, std::move(on_done));
  AnswerWhenSynced(parts_, session,
                   [this, session,
                    on_done = std::move(on_done)](absl::StatusOr<SessionFacts> facts) {
                     if (!facts.ok() && parts_.context->directory.Retire(session)) {
                       parts_.models.decoder(session->model)->Forget(session);
                     }
                     on_done(std::move(facts));
                   });
}

}  // namespace mnemon
