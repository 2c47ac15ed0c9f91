// SPDX-License-Identifier: MIT
#include "server/durability/session_loader.h"

#include <chrono>
#include <string>
#include <utility>

#include "base/log.h"
#include "base/out_of_memory.h"
#include "base/status_macros.h"
#include "base/strings.h"
#include "server/durability/stored_journal.h"
#include "server/requests/engine_errors.h"

namespace mnemon {
namespace {

using SteadyClock = std::chrono::steady_clock;
using Short = HistorySweeps::Short;

}  // namespace

absl::StatusOr<std::shared_ptr<Session>> SessionLoader::Use(
    const std::shared_ptr<Session>& session, bool patient) {
  if (session->journal == nullptr) return session;
  struct HistoryUse {
    explicit HistoryUse(std::shared_ptr<Session> used) : session(std::move(used)) {
      ++session->history_uses;
    }
    ~HistoryUse() { --session->history_uses; }
    const std::shared_ptr<Session> session;
  };
  // Counted first: Unload looks for uses once it has taken the history out of reach.
  const auto use = std::make_shared<HistoryUse>(session);
  absl::Status loaded;
  const int64_t tokens =
      session->resident ? 0 : context_.directory.FactsOf(*session).tokens;
  const int64_t bytes = session->history.BytesOf(tokens);
  const auto fits = [&] {
    // What is read without room for it is read in vain.
    loaded = session->resident || HasRoom(bytes) ? histories_.Load(*session)
                                                 : engine_errors::MemoryLimit();
    return !absl::IsResourceExhausted(loaded);
  };
  if (!patient) {
    if (!fits()) sweeps_.GiveUpHistories(bytes);
  } else {
    sweeps_.MakeRoom(bytes, Short::kResting, fits);
  }
  MNEMON_RETURN_IF_ERROR(loaded);
  return std::shared_ptr<Session>(use, session.get());
}

absl::StatusOr<std::shared_ptr<Session>> SessionLoader::UseWithCheckpoints(
    const std::shared_ptr<Session>& session) {
  MNEMON_ASSIGN_OR_RETURN(std::shared_ptr<Session> used, Use(session));
  for (const SessionCheckpoint& checkpoint :
       context_.directory.checkpoints().Of(*session)) {
    const absl::Status loaded = LoadCheckpoint(*session, checkpoint);
    if (!loaded.ok() && !absl::IsDataLoss(loaded)) return loaded;
  }
  return used;
}

bool SessionLoader::HasRoom(int64_t bytes) const {
  const EngineMemory& memory = *context_.memory;
  return memory.resting.used() <= memory.resting.limit() - bytes &&
         memory.budget.used() <= memory.budget.limit() - bytes;
}

absl::Status SessionLoader::LoadCheckpoint(const Session& owner,
                                           const SessionCheckpoint& checkpoint) {
  const Session& at = *checkpoint.at;
  const int64_t bytes = at.resident ? 0 : at.history.BytesOf(at.stored_tokens);
  absl::Status loaded;
  sweeps_.MakeRoom(bytes, Short::kResting, [&] {
    loaded = at.resident || HasRoom(bytes) ? histories_.Load(owner, checkpoint)
                                           : engine_errors::MemoryLimit();
    return !absl::IsResourceExhausted(loaded);
  });
  return loaded;
}

bool SessionLoader::CanRestore(const Session& session) const {
  return session.journal != nullptr && session.in_runner.state_bytes == 0 &&
         session.in_runner.image_bytes == 0 &&
         JournalOf(session).Usable(session.history.size()).has_value();
}

void SessionLoader::Restore(const std::shared_ptr<Session>& session,
                            std::function<void()> next) {
  const auto snapshot = CanRestore(*session)
                            ? JournalOf(*session).Usable(session->history.size())
                            : std::nullopt;
  if (!snapshot) return next();
  const std::string name = snapshot->name;
  const auto read = [this, name] { return stores_.store.GetSnapshot(name); };
  RestoreFrom(
      session, session->id, read,
      [this, session, name, next = std::move(next)](const absl::Status& status) {
        // Not there: newer ones have taken its place, or power failed.
        if (!absl::IsDataLoss(status) && !absl::IsNotFound(status)) return next();
        JournalOf(*session).Forget(name);
        Restore(session, next);
      });
}

void SessionLoader::Restore(const Session& owner, const SessionCheckpoint& checkpoint,
                            std::function<void()> next) {
  const std::string name = owner.journal == nullptr
                               ? std::string()
                               : JournalOf(owner).SnapshotOfCheckpoint(checkpoint.id);
  if (name.empty() || checkpoint.at->in_runner.state_bytes > 0) return next();
  RestoreFrom(
      checkpoint.at, owner.id, [this, name] { return stores_.store.GetSnapshot(name); },
      [next = std::move(next)](const absl::Status&) { next(); });
}

void SessionLoader::RestoreFrom(const std::shared_ptr<Session>& session,
                                const std::string& id,
                                std::function<absl::StatusOr<std::string>()> read,
                                std::function<void(absl::Status)> next) {
  const auto begin = SteadyClock::now();
  OnAnswer<bool> on_done = [this, begin, id,
                            next = std::move(next)](absl::StatusOr<bool> restored) {
    const auto took = SteadyClock::now() - begin;
    if (absl::IsDataLoss(restored.status())) ++damaged_;
    EngineObserver* const observer = context_.options.observer.get();
    if (restored.ok() && *restored && observer != nullptr) {
      observer->OnRestored(SessionTier::kDisk, took);
    }
    if (!restored.ok() && !absl::IsNotFound(restored.status())) {
      LogWarning(StrCat("the state of session ", id,
                        " is computed again: ", restored.status().message()));
    }
    next(restored.status());
  };
  on_done.Watch(context_.waiters, WaiterKind::kRestore);
  const absl::Status begun = CatchOutOfMemory({}, [&] {
    RestoreState(stores_.PlaceOf(session->model), session,
                 stores_.MakeCopy(session->model), std::move(read), on_done);
    return absl::OkStatus();
  });
  if (!begun.ok()) on_done(begun);
}

}  // namespace mnemon
