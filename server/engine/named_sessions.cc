// SPDX-License-Identifier: MIT
#include "server/engine/named_sessions.h"

#include <chrono>
#include <new>
#include <utility>

#include "base/status_macros.h"
#include "server/requests/engine_errors.h"
#include "server/requests/random.h"

namespace mnemon {

void NamedSessions::Start() {
  thread_ = std::thread([this] { Run(); });
}

void NamedSessions::RequestStop() {
  {
    std::lock_guard lock(mutex_);
    stopping_ = true;
  }
  changed_.notify_all();
}

void NamedSessions::Join() {
  if (thread_.joinable()) thread_.join();
}

void NamedSessions::Run() {
  const EngineContext& context = *parts_.context;
  std::unique_lock lock(mutex_);
  while (!stopping_) {
    lock.unlock();
    try {
      while (RemoveExpired() && !stopping_) {
      }
      for (const std::string& id : context.directory.sleep().FindExpired()) {
        if (stopping_) break;
        // A session that the store does not give now is found again later.
        static_cast<void>(Expire(id));
      }
    } catch (const std::bad_alloc&) {
      // Those that are left go later.
    }
    const auto next = context.directory.NextExpiry();
    const auto now = context.options.clock->Now();
    lock.lock();
    if (stopping_) return;
    const auto left = next ? *next - now : std::chrono::nanoseconds::max();
    if (left.count() > 0) changed_.wait_for(lock, SleepFor(left));
  }
}

bool NamedSessions::RemoveExpired() {
  for (size_t count = 0; count < 2048;) {
    auto removed = parts_.context->directory.RemoveExpired();
    if (removed.empty()) return false;
    count += removed.size();
    for (auto& session : removed) Forget(std::move(session));
  }
  return true;
}

absl::Status NamedSessions::Expire(const std::string& id) {
  if (id.empty()) return absl::OkStatus();
  SessionDirectory& directory = parts_.context->directory;
  const absl::Status woken = directory.sleep().WakeExpired(id);
  // Found again with its damage, until somebody deletes it.
  if (absl::IsDataLoss(woken)) parts_.persistence->unusable().GiveUp(id, woken);
  if (auto expired = directory.RemoveIfExpired(id)) Forget(std::move(expired));
  return woken;
}

void NamedSessions::Forget(std::shared_ptr<Session> expired) {
  parts_.models.decoder(expired->model)->Forget(std::move(expired));
  parts_.Report(SessionEvent::kExpire);
}

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
  RemoveExpired();
  // A session that cannot be removed just now has expired all the same.
  static_cast<void>(Expire(id));
  auto session = FindAwake(id);
  if (!session.ok() && parts_.persistence) {
    MNEMON_RETURN_IF_ERROR(parts_.persistence->unusable().Check(id));
  }
  return session;
}

absl::StatusOr<std::shared_ptr<Session>> NamedSessions::FindWithHistory(
    const std::string& id) {
  auto session = Find(id);
  if (!parts_.persistence || !session.ok()) return session;
  return parts_.persistence->loader().Use(*session);
}

absl::StatusOr<std::shared_ptr<Session>> NamedSessions::FindMadeBy(
    const std::string& request_id) {
  const std::string id =
      request_id.empty() ? "" : parts_.context->directory.MadeBy(request_id);
  if (id.empty()) return nullptr;
  MNEMON_RETURN_IF_ERROR(Expire(id));
  auto made = FindAwake(id);
  if (absl::IsNotFound(made.status())) return nullptr;
  return made;
}

absl::Status NamedSessions::CheckIds(const std::string& id,
                                     const std::string& request_id,
                                     const std::string& field) {
  if (!id.empty()) MNEMON_RETURN_IF_ERROR(CheckSessionId(id, field));
  return CheckRequestId(request_id);
}

absl::StatusOr<std::shared_ptr<Session>> NamedSessions::Make(const std::string& id,
                                                             size_t model,
                                                             Durability durability,
                                                             bool has_history) {
  MNEMON_RETURN_IF_ERROR(parts_.models.CheckOpen());
  RemoveExpired();
  MNEMON_RETURN_IF_ERROR(Expire(id));
  auto session = std::make_shared<Session>(id.empty() ? RandomId() : id, model,
                                           parts_.context->memory);
  session->drawn_id = id.empty();
  MNEMON_RETURN_IF_ERROR(parts_.ChargeNew(*session, Session::kBytes));
  const bool durable = durability != Durability::kNone;
  if (SessionPersistence* const persistence = parts_.persistence.get()) {
    MNEMON_RETURN_IF_ERROR(persistence->unusable().Check(session->id));
    if (durable) MNEMON_RETURN_IF_ERROR(persistence->status());
    persistence->Adopt(session, durability, has_history);
  } else if (durable) {
    return engine_errors::NoStore();
  }
  return session;
}

Durability NamedSessions::default_durability() const {
  return parts_.persistence ? parts_.context->options.durability : Durability::kNone;
}

void NamedSessions::AnswerWhenMade(const absl::StatusOr<std::shared_ptr<Session>>& made,
                                   const Session* fresh, SessionEvent event,
                                   OnAnswer<SessionFacts> on_done) {
  if (!made.ok()) return on_done(made.status());
  const std::shared_ptr<Session>& session = *made;
  if (session.get() == fresh) parts_.Report(event);
  WakeExpiry();
  if (event != SessionEvent::kCreate && parts_.persistence) {
    parts_.persistence->RequestSnapshot(session);
  }
  if (session.get() != fresh) {
    return parts_.AnswerWhenSynced(session, std::move(on_done));
  }
  parts_.AnswerWhenSynced(session, [this, session, on_done = std::move(on_done)](
                                       absl::StatusOr<SessionFacts> facts) {
    if (!facts.ok() && parts_.context->directory.Retire(session)) {
      parts_.models.decoder(session->model)->Forget(session);
    }
    on_done(std::move(facts));
  });
}

}  // namespace mnemon
