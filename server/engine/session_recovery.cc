// SPDX-License-Identifier: MIT
// How sessions come back from the store: all of them at the start, the history and the
// state of one when it is used.
#include <algorithm>
#include <set>
#include <utility>

#include "base/error.h"
#include "base/log.h"
#include "base/out_of_memory.h"
#include "base/status_macros.h"
#include "base/strings.h"
#include "server/engine/engine_errors.h"
#include "server/engine/journal_entry.h"
#include "server/engine/request_check.h"
#include "server/engine/session_persistence.h"
#include "server/state/snapshot.h"

namespace mnemon {
namespace {

using SteadyClock = std::chrono::steady_clock;

constexpr size_t kExpiryBytes = 8;
// A history may end with a token that is not computed.
constexpr int64_t kMaxTokens = int64_t{1} << 40;

}  // namespace

absl::StatusOr<Recovery> SessionPersistence::Recover() {
  Recovery recovery;
  MNEMON_RETURN_IF_ERROR(RecoverRecords(recovery));
  MNEMON_RETURN_IF_ERROR(RecoverJournals());
  InsertRecovered(recovery);
  store_.SetLive([this](std::string_view id) {
    const std::string text(id);
    if (unusable_.contains(text) || context_.directory.Contains(text)) return true;
    std::lock_guard lock(mutex_);
    return deleting_.contains(text);
  });
  return recovery;
}

absl::Status SessionPersistence::RecoverRecords(Recovery& recovery) {
  absl::Status status;
  MNEMON_RETURN_IF_ERROR(store_.Scan(
      StoreTable::kSessions, {},
      [&](std::string_view id, auto, std::string_view value) {
        status = CatchOutOfMemory(
            {}, [&] { return RecoverRecord(std::string(id), value, recovery); });
        return status.ok();
      }));
  return status;
}

absl::Status SessionPersistence::RecoverRecord(const std::string& id,
                                               std::string_view value,
                                               Recovery& recovery) {
  value.remove_prefix(std::min(kExpiryBytes, value.size()));
  absl::StatusOr<StoredSession> stored = ParseStoredSession(std::string(value));
  if (!stored.ok()) {
    LogError(StrCat("session ", id, " is not served: ", stored.status().message()));
    unusable_.emplace(id, engine_errors::SessionDamaged(id));
    ++recovery.damaged;
    return absl::OkStatus();
  }
  const auto model =
      std::find_if(models_.begin(), models_.end(), [&](const EngineModel& loaded) {
        return loaded.decoder != nullptr && loaded.facts.name == stored->model &&
               loaded.facts.model_id == stored->model_id;
      });
  if (model == models_.end()) {
    unusable_.emplace(id, engine_errors::SessionOfOtherModel(id, stored->model));
    ++recovery.foreign;
    return absl::OkStatus();
  }
  Found& found = found_[id];
  found.model = static_cast<size_t>(model - models_.begin());
  found.journal = {.snapshots = stored->snapshots, .checkpoints = stored->checkpoints};
  if (!stored->snapshots.empty()) {
    found.tokens = stored->snapshots.back().tokens;
    found.journal.sequence = stored->snapshots.back().sequence;
    found.journal.oldest = found.journal.sequence + 1;
  }
  found.stored = *std::move(stored);
  return absl::OkStatus();
}

absl::Status SessionPersistence::RecoverJournals() {
  std::set<std::string> orphans;
  std::string at;
  Found* found = nullptr;
  MNEMON_RETURN_IF_ERROR(store_.Scan(
      StoreTable::kJournal, {},
      [&](std::string_view id, std::string_view name, std::string_view value) {
        if (id != at) {
          at = id;
          const auto known = found_.find(at);
          found = known == found_.end() ? nullptr : &known->second;
          if (found == nullptr && !unusable_.contains(at)) orphans.insert(at);
          if (found != nullptr) {
            found->journal.oldest = JournalSequence(name).value_or(0);
          }
        }
        if (found == nullptr) return true;
        const uint64_t sequence = JournalSequence(name).value_or(0);
        // What the newest snapshot contains says nothing of what it has besides.
        const bool behind = found->stored.snapshots.empty() ||
                            sequence > found->stored.snapshots.back().sequence;
        const auto size = SizeAfterJournalEntry(value);
        if (behind && size.ok()) found->tokens = *size;
        found->journal.sequence = std::max(found->journal.sequence, sequence);
        return true;
      }));
  // Of sessions whose creation was not acknowledged, or whose end was.
  std::vector<StoreChange> changes;
  for (const std::string& id : orphans) {
    for (const StoreTable table : {StoreTable::kJournal, StoreTable::kSnapshots}) {
      changes.push_back(
          {.table = table, .kind = StoreChange::Kind::kDeleteAll, .id = id});
    }
  }
  if (changes.empty()) return absl::OkStatus();
  return store_.Commit(changes, Sync::kNo);
}

void SessionPersistence::InsertRecovered(Recovery& recovery) {
  const Clock& clock = *context_.options.clock;
  const auto wall = clock.WallNow();
  const auto now = clock.Now();
  EngineObserver* const observer = context_.options.observer.get();
  for (auto& [id, found] : found_) {
    StoredSession& stored = found.stored;
    auto session = std::make_shared<Session>(
        id, found.model, &context_.options.on_history_change, context_.memory);
    session->create_time = stored.create_time;
    session->last_use_time = stored.last_use_time;
    session->parent = stored.parent;
    session->rebuilt = stored.rebuilt;
    session->request_id = stored.request_id;
    session->request_text = stored.request_text;
    session->drawn_id = stored.drawn_id;
    session->request_ids.assign(stored.request_ids.begin(), stored.request_ids.end());
    session->ttl = stored.ttl;
    if (stored.sampling) {
      session->sampling = std::make_shared<const SessionSampling>(*stored.sampling);
    }
    session->paused = stored.paused;
    session->scored_from = stored.scored_from;
    RecoverCall(*session, found);
    session->resident = found.tokens == 0;
    session->stored_tokens = found.tokens;
    std::optional<SteadyClock::time_point> expiry;
    if (const auto at = stored.expiry()) {
      expiry = now + std::chrono::duration_cast<SteadyClock::duration>(*at - wall);
      if (!stored.ttl) session->expires_at = expiry;
    }
    for (const StoredCheckpoint& kept : stored.checkpoints) {
      auto at = std::make_shared<Session>("", found.model, nullptr, context_.memory);
      at->resident = false;
      at->stored_tokens = kept.snapshot.tokens;
      session->checkpoints.push_back({.id = kept.id,
                                      .request_id = kept.request_id,
                                      .create_time = kept.create_time,
                                      .at = std::move(at)});
    }
    session->journal = std::make_shared<SessionJournal>(writer_, id, stored.durability,
                                                        std::move(found.journal));
    session->journal->SetSession(session);
    if (session->resident) session->history.SetJournal(session->journal.get());
    if (expiry && *expiry <= now) {
      ++recovery.expired;
      if (observer != nullptr) observer->OnSessionEvent(SessionEvent::kExpire);
      Delete(*session, nullptr);
      continue;
    }
    ++recovery.sessions;
    context_.directory.Restore(std::move(session), expiry);
  }
  found_.clear();
}

void SessionPersistence::RecoverCall(Session& session, Found& found) {
  if (found.stored.newest_call.empty()) return;
  const auto record = ParseCallRecord(found.stored.newest_call);
  if (!record.ok()) {
    LogError(StrCat("session ", session.id,
                    ", its newest call: ", record.status().message()));
    return;
  }
  // The record may be newer than the journal: what followed was not acknowledged.
  const bool undone = !record->prompt.empty() || found.tokens < record->prompt_end;
  if (undone) found.tokens = std::min(found.tokens, record->base);
  if (undone && record->prompt.empty()) return;
  session.newest_call = std::make_shared<CallRecord>(*record);
  auto& ids = session.request_ids;
  if (!undone && std::find(ids.begin(), ids.end(), record->request_id) == ids.end()) {
    ids.push_back(record->request_id);
  }
}

absl::StatusOr<std::string> SessionPersistence::ReadBlob(const std::string& id,
                                                         const std::string& name) {
  MNEMON_ASSIGN_OR_RETURN(std::optional<std::string> bytes,
                          store_.Get(StoreTable::kSnapshots, id, name));
  if (!bytes) return engine_errors::SessionDamaged(id);
  return *std::move(bytes);
}

absl::StatusOr<std::vector<int32_t>> SessionPersistence::ReadTokens(
    const std::string& id, const std::string& name, size_t model) {
  const ModelRunner& runner = *runners_[model];
  MNEMON_ASSIGN_OR_RETURN(const std::string bytes, ReadBlob(id, name));
  MNEMON_ASSIGN_OR_RETURN(
      Snapshot snapshot,
      DecodeSnapshot(bytes, {.tokens = kMaxTokens, .state_bytes = kMaxSnapshotState}));
  for (size_t i = 0; i < snapshot.tokens.size(); ++i) {
    MNEMON_RETURN_IF_ERROR(
        CheckToken(snapshot.tokens[i], i, "snapshot.tokens", runner.vocab()));
  }
  return std::move(snapshot.tokens);
}

absl::StatusOr<std::vector<int32_t>> SessionPersistence::ReadHistory(
    const Session& session, const StoredSnapshot* snapshot) {
  std::vector<int32_t> tokens;
  uint64_t expected = 1;
  if (snapshot != nullptr) {
    MNEMON_ASSIGN_OR_RETURN(tokens,
                            ReadTokens(session.id, snapshot->name, session.model));
    expected = snapshot->sequence + 1;
  }
  absl::Status status;
  const std::string from = JournalName(expected);
  MNEMON_RETURN_IF_ERROR(store_.Scan(
      StoreTable::kJournal, {.id = session.id, .from = from},
      [&](auto, std::string_view name, std::string_view value) {
        status = CatchOutOfMemory({}, [&]() -> absl::Status {
          if (JournalSequence(name) != expected++) {
            return engine_errors::SessionDamaged(session.id);
          }
          MNEMON_ASSIGN_OR_RETURN(const JournalEntry entry, ParseJournalEntry(value));
          return ApplyJournalEntry(entry, tokens);
        });
        return status.ok();
      }));
  MNEMON_RETURN_IF_ERROR(status);
  const auto size = static_cast<size_t>(session.stored_tokens);
  if (tokens.size() < size) return engine_errors::SessionDamaged(session.id);
  tokens.resize(size);
  return tokens;
}

absl::Status SessionPersistence::SetHistory(Session& session,
                                            const std::vector<int32_t>& tokens) {
  if (!session.history.Stage(tokens, 0)) {
    context_.AskForMemory(session.history.BytesOf(static_cast<int64_t>(tokens.size())));
    return engine_errors::MemoryLimit();
  }
  session.history.AppendStaged();
  if (session.journal == nullptr) {  // a checkpoint's
    session.resident = true;
    return absl::OkStatus();
  }
  session.journal->SetSize(session.history.size());
  session.history.SetJournal(session.journal.get());
  context_.directory.SetResident(session);
  return absl::OkStatus();
}

std::mutex& SessionPersistence::LoadingOf(const Session& session) {
  return loading_[std::hash<std::string>()(session.id) % loading_.size()];
}

absl::StatusOr<std::shared_ptr<Session>> SessionPersistence::Use(
    const std::shared_ptr<Session>& session) {
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
  MNEMON_RETURN_IF_ERROR(LoadHistory(*session));
  return std::shared_ptr<Session>(use, session.get());
}

absl::Status SessionPersistence::LoadHistory(Session& session) try {
  if (session.resident) return absl::OkStatus();
  std::lock_guard loading(LoadingOf(session));
  if (session.resident) return absl::OkStatus();
  std::vector<StoredSnapshot> snapshots = session.journal->stored().snapshots;
  while (true) {
    const StoredSnapshot* const newest =
        snapshots.empty() ? nullptr : &snapshots.back();
    const auto tokens = ReadHistory(session, newest);
    if (tokens.ok()) return SetHistory(session, *tokens);
    // What the disk does not give just now it may give later.
    if (!absl::IsDataLoss(tokens.status()) &&
        !absl::IsInvalidArgument(tokens.status())) {
      return tokens.status();
    }
    // It was deleted meanwhile.
    if (!context_.directory.Contains(session.id)) {
      return engine_errors::NotFound(session.id);
    }
    LogError(StrCat("session ", session.id, ": ", tokens.status().message()));
    if (newest == nullptr) return engine_errors::SessionDamaged(session.id);
    session.journal->Forget(newest->name);
    snapshots.pop_back();
    std::lock_guard lock(mutex_);
    ++stats_.damaged_snapshots;
  }
} catch (const std::bad_alloc&) {
  return OutOfMemoryError();
}

absl::Status SessionPersistence::LoadHistory(const Session& owner,
                                             const SessionCheckpoint& checkpoint) try {
  Session& at = *checkpoint.at;
  if (at.resident) return absl::OkStatus();
  std::lock_guard loading(LoadingOf(owner));
  if (at.resident) return absl::OkStatus();
  const auto tokens = ReadTokens(owner.id, "c" + checkpoint.id, owner.model);
  if (tokens.ok()) return SetHistory(at, *tokens);
  if (!absl::IsDataLoss(tokens.status())) return tokens.status();
  LogError(StrCat("session ", owner.id, ", checkpoint ", checkpoint.id, ": ",
                  tokens.status().message()));
  return engine_errors::SessionDamaged(owner.id);
} catch (const std::bad_alloc&) {
  return OutOfMemoryError();
}

bool SessionPersistence::CanRestore(const Session& session) const {
  return session.journal != nullptr && session.state_bytes == 0 &&
         session.image_bytes == 0 &&
         session.journal->Usable(session.history.size()).has_value();
}

void SessionPersistence::Restore(const std::shared_ptr<Session>& session,
                                 std::function<void()> next) {
  const auto snapshot = CanRestore(*session)
                            ? session->journal->Usable(session->history.size())
                            : std::nullopt;
  if (!snapshot) return next();
  const std::string name = snapshot->name;
  const auto read = [this, session, name]() -> absl::StatusOr<std::string> {
    auto bytes = ReadBlob(session->id, name);
    // Newer ones have taken its place.
    if (!bytes.ok() && !session->journal->HasSnapshot(name)) {
      return absl::AbortedError("");
    }
    return bytes;
  };
  RestoreFrom(
      session, session->id, read,
      [this, session, name, next = std::move(next)](const absl::Status& status) {
        if (!absl::IsDataLoss(status) && !absl::IsAborted(status)) return next();
        session->journal->Forget(name);
        Restore(session, next);
      });
}

void SessionPersistence::Restore(const Session& owner,
                                 const SessionCheckpoint& checkpoint,
                                 std::function<void()> next) {
  const bool stored =
      owner.journal != nullptr && owner.journal->HasCheckpoint(checkpoint.id);
  if (!stored || checkpoint.at->state_bytes > 0) return next();
  RestoreFrom(
      checkpoint.at, owner.id,
      [this, id = owner.id, name = "c" + checkpoint.id] { return ReadBlob(id, name); },
      [next = std::move(next)](const absl::Status&) { next(); });
}

void SessionPersistence::RestoreFrom(const std::shared_ptr<Session>& session,
                                     const std::string& id,
                                     std::function<absl::StatusOr<std::string>()> read,
                                     std::function<void(absl::Status)> next) {
  const auto begin = SteadyClock::now();
  RestoreState(
      PlaceOf(session->model), session, MakeCopy(session->model), std::move(read),
      [this, begin, id, next = std::move(next)](auto restored) {
        const auto took = SteadyClock::now() - begin;
        if (absl::IsDataLoss(restored.status())) {
          std::lock_guard lock(mutex_);
          ++stats_.damaged_snapshots;
        }
        EngineObserver* const observer = context_.options.observer.get();
        if (restored.ok() && *restored && observer != nullptr) {
          observer->OnRestored(SessionTier::kDisk, took);
        }
        if (!restored.ok() && !absl::IsAborted(restored.status())) {
          LogWarning(StrCat("the state of session ", id,
                            " is computed again: ", restored.status().message()));
        }
        next(restored.status());
      });
}

}  // namespace mnemon
