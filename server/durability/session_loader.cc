// SPDX-License-Identifier: MIT
#include "server/durability/session_loader.h"

#include <chrono>
#include <mutex>
#include <new>
#include <optional>
#include <string_view>
#include <utility>

#include "base/log.h"
#include "base/out_of_memory.h"
#include "base/status_macros.h"
#include "base/strings.h"
#include "server/durability/journal_entry.h"
#include "server/durability/stored_journal.h"
#include "server/requests/engine_errors.h"
#include "server/requests/request_check.h"

namespace mnemon {
namespace {

using SteadyClock = std::chrono::steady_clock;

// The snapshot that the state which the session has lost can come from.
std::optional<StoredSnapshot> UsableFor(const Session& session) {
  if (session.journal == nullptr || session.in_runner.in_memory()) return std::nullopt;
  return JournalOf(session).Usable(session.history.size());
}

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
    loaded = session->resident || HasRoom(bytes) ? Load(*session)
                                                 : engine_errors::MemoryLimit();
    return !absl::IsResourceExhausted(loaded);
  };
  if (!patient) {
    if (!fits()) sweeps_.GiveUpHistories(bytes);
  } else {
    sweeps_.MakeRoom(bytes, HistorySweeps::Short::kResting, fits);
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
  sweeps_.MakeRoom(bytes, HistorySweeps::Short::kResting, [&] {
    loaded = at.resident || HasRoom(bytes) ? Load(owner, checkpoint)
                                           : engine_errors::MemoryLimit();
    return !absl::IsResourceExhausted(loaded);
  });
  return loaded;
}

absl::Status SessionLoader::Load(Session& session) try {
  if (session.resident) return absl::OkStatus();
  std::lock_guard loading(stores_.LoadingOf(session));
  if (session.resident) return absl::OkStatus();
  const auto tokens = Read(session);
  if (tokens.ok()) return SetHistory(session, *tokens);
  // It was deleted meanwhile, or the store has that and the directory is about to.
  if ((absl::IsDataLoss(tokens.status()) && JournalOf(session).leaves_store()) ||
      !context_.directory.Contains(session.id)) {
    return engine_errors::NotFound(session.id);
  }
  // What the disk does not give just now it may give later.
  if (absl::IsDataLoss(tokens.status())) {
    LogError(StrCat("session ", session.id, ": ", tokens.status().message()));
  }
  return tokens.status();
} catch (const std::bad_alloc&) {
  return OutOfMemoryError();
}

absl::Status SessionLoader::Load(const Session& owner,
                                 const SessionCheckpoint& checkpoint) try {
  Session& at = *checkpoint.at;
  if (at.resident) return absl::OkStatus();
  std::lock_guard loading(stores_.LoadingOf(owner));
  if (at.resident) return absl::OkStatus();
  const absl::StatusOr<std::optional<std::string>> bytes =
      stores_.reads.Get(StoreTable::kCheckpoints, {.id = owner.id}, checkpoint.id);
  if (!bytes.ok() && !absl::IsDataLoss(bytes.status())) return bytes.status();
  const auto tokens = ParseTokens(bytes.ok() ? bytes->value_or("?") : "?");
  if (tokens.ok() && CheckTokens(*tokens, "history", VocabOf(owner)).ok()) {
    return SetHistory(at, *tokens);
  }
  LogError(StrCat("session ", owner.id, ": the history of its checkpoint ",
                  checkpoint.id, " is missing or damaged"));
  return engine_errors::CheckpointDamaged(owner.id, checkpoint.id);
} catch (const std::bad_alloc&) {
  return OutOfMemoryError();
}

absl::StatusOr<std::vector<int32_t>> SessionLoader::Read(const Session& session) {
  std::vector<int32_t> tokens;
  std::optional<uint64_t> before;
  absl::Status status;
  const auto damaged = [&] {
    status.Update(
        engine_errors::SessionDamaged(session.id, static_cast<int64_t>(tokens.size())));
  };
  MNEMON_RETURN_IF_ERROR(stores_.reads.ScanJournal(
      {.id = session.id},
      [&](const SessionKey&, std::string_view name, std::string_view value) {
        const absl::Status applied = CatchOutOfMemory({}, [&]() -> absl::Status {
          const std::optional<uint64_t> sequence = JournalSequence(name);
          if (before && sequence != *before + 1) {
            return absl::DataLossError("an entry is missing");
          }
          before = sequence;
          MNEMON_ASSIGN_OR_RETURN(const JournalEntry entry, ParseJournalEntry(value));
          return ApplyJournalEntry(entry, tokens);
        });
        if (absl::IsDataLoss(applied)) {
          damaged();
        } else {
          status.Update(applied);
        }
        return status.ok();
      },
      [&](const UnreadableRange&) { damaged(); }));
  const auto size = static_cast<size_t>(session.stored_tokens);
  if (status.ok() && tokens.size() < size) damaged();
  MNEMON_RETURN_IF_ERROR(status);
  tokens.resize(size);
  MNEMON_RETURN_IF_ERROR(CheckTokens(tokens, "history", VocabOf(session)));
  return tokens;
}

absl::Status SessionLoader::SetHistory(Session& session,
                                       const std::vector<int32_t>& tokens) {
  if (!session.history.Stage(tokens, 0)) return engine_errors::MemoryLimit();
  const uint64_t version = session.history.version();
  session.history.AppendStaged();
  session.history.SetVersion(version);
  if (session.journal == nullptr) {  // a checkpoint's
    session.resident = true;
    return absl::OkStatus();
  }
  JournalOf(session).SetSize(session.history.size());
  session.history.SetObserver(session.journal.get());
  context_.directory.SetResident(session);
  return absl::OkStatus();
}

bool SessionLoader::CanRestore(const Session& session) {
  return UsableFor(session).has_value();
}

void SessionLoader::Restore(const std::shared_ptr<Session>& session,
                            std::function<void()> next) {
  const auto snapshot = UsableFor(*session);
  if (!snapshot) return next();
  const std::string name = snapshot->name;
  const auto read = [this, name] { return stores_.reads.GetSnapshot(name); };
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
      checkpoint.at, owner.id, [this, name] { return stores_.reads.GetSnapshot(name); },
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
  RestoreState(stores_.PlaceOf(session->model), session, std::move(read),
               std::move(on_done));
}

}  // namespace mnemon
