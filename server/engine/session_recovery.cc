// SPDX-License-Identifier: MIT
// How sessions come back from the store: all of them at the start, the history and the
// state of one when it is used.
#include <algorithm>
#include <utility>

#include "base/log.h"
#include "base/out_of_memory.h"
#include "base/status_macros.h"
#include "base/strings.h"
#include "server/engine/engine_errors.h"
#include "server/engine/journal_entry.h"
#include "server/engine/request_check.h"
#include "server/engine/session_persistence.h"
#include "server/engine/store_survey.h"
#include "server/engine/store_upgrade.h"

namespace mnemon {
namespace {

using SteadyClock = std::chrono::steady_clock;

}  // namespace

absl::StatusOr<Recovery> SessionPersistence::Recover() {
  Recovery recovery;
  context_.directory.SetWaker(
      [this](const std::string& id) { return ReadSession(id); });
  MNEMON_RETURN_IF_ERROR(UpgradeStore(store_));
  MNEMON_ASSIGN_OR_RETURN(StoreSurvey survey, SurveyStore(store_));
  std::map<std::string, Found> sessions;
  std::vector<std::string> snapshots;
  for (auto& [id, session] : survey.sessions) {
    for (const StoredSnapshot& kept : session.journal.snapshots) {
      snapshots.push_back(kept.name);
    }
    for (const StoredCheckpoint& kept : session.journal.checkpoints) {
      snapshots.push_back(kept.snapshot.name);
    }
    const std::string model = session.record ? session.record->model : "";
    absl::StatusOr<Found> found = FoundOf(id, std::move(session));
    if (found.ok()) {
      sessions.emplace(id, *std::move(found));
      continue;
    }
    const bool damaged = absl::IsDataLoss(found.status());
    ++(damaged ? recovery.damaged : recovery.foreign);
    std::lock_guard lock(mutex_);
    Unusable why;
    if (damaged) {
      why.damage = std::make_shared<const absl::Status>(found.status());
    } else {
      why.model = &*other_models_.insert(model).first;
    }
    KeepUnusableLocked(id, std::move(why));
  }
  for (const std::string& id : survey.doubtful) {
    LogEvent(LogLevel::kError, "session_doubtful",
             {{"session", id},
              {"detail", std::string("the end of its journal may be missing")}});
  }
  // Snapshots of sessions whose records cannot be read, or are lost, stay.
  const StoreCondition condition = store_.condition();
  store_.CountSnapshots(snapshots,
                        /*remove_others=*/recovery.damaged == 0 &&
                            condition.lost_commits == 0 && condition.unreadable == 0);
  InsertRecovered(std::move(sessions), recovery);
  return recovery;
}

absl::StatusOr<SessionPersistence::Found> SessionPersistence::FoundOf(
    const std::string& id, SurveyedSession session) const {
  if (!session.damage.ok()) {
    LogEvent(LogLevel::kError, "session_damaged",
             {{"session", id},
              {"whole_tokens", session.tokens},
              {"detail", std::string(session.damage.message())}});
    return engine_errors::SessionDamaged(id, session.tokens);
  }
  const auto model =
      std::find_if(models_.begin(), models_.end(), [&](const EngineModel& loaded) {
        return loaded.decoder != nullptr &&
               loaded.facts.name == session.record->model &&
               loaded.facts.model_id == session.record->model_id;
      });
  if (model == models_.end()) {
    return engine_errors::SessionOfOtherModel(id, session.record->model);
  }
  return Found{.stored = *std::move(session.record),
               .journal = std::move(session.journal),
               .model = static_cast<size_t>(model - models_.begin()),
               .tokens = session.tokens};
}

std::shared_ptr<Session> SessionPersistence::MakeFound(const std::string& id,
                                                       Found& found) {
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
  if (stored.expire_time && !stored.ttl) session->expires_at = ExpiryOf(stored);
  for (const StoredCheckpoint& kept : stored.checkpoints) {
    auto at = std::make_shared<Session>("", found.model, nullptr, context_.memory);
    at->charge.Set(Session::kCheckpointBytes);
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
  return session;
}

std::optional<SteadyClock::time_point> SessionPersistence::ExpiryOf(
    const StoredSession& stored) const {
  const auto expiry = stored.expiry();
  if (!expiry) return std::nullopt;
  const Clock& clock = *context_.options.clock;
  return clock.Now() +
         std::chrono::duration_cast<SteadyClock::duration>(*expiry - clock.WallNow());
}

absl::StatusOr<std::shared_ptr<Session>> SessionPersistence::ReadSession(
    const std::string& id) try {
  MNEMON_ASSIGN_OR_RETURN(SurveyedSession session, SurveySession(store_, id));
  MNEMON_ASSIGN_OR_RETURN(Found found, FoundOf(id, std::move(session)));
  return MakeFound(id, found);
} catch (const std::bad_alloc&) {
  return OutOfMemoryError();
}

void SessionPersistence::InsertRecovered(std::map<std::string, Found> sessions,
                                         Recovery& recovery) {
  const auto now = context_.options.clock->Now();
  EngineObserver* const observer = context_.options.observer.get();
  while (!sessions.empty()) {
    const auto node = sessions.extract(sessions.begin());
    const std::string& id = node.key();
    const auto expiry = ExpiryOf(node.mapped().stored);
    std::shared_ptr<Session> session = MakeFound(id, node.mapped());
    if (expiry && *expiry <= now) {
      ++recovery.expired;
      if (observer != nullptr) observer->OnSessionEvent(SessionEvent::kExpire);
      Delete(*session, nullptr);
      continue;
    }
    ++recovery.sessions;
    context_.directory.Restore(std::move(session), expiry);
    // Where there are many, all but those that are used first stay in the store.
    if (RestingShort()) context_.directory.Sleep(id);
  }
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
  auto charged = std::make_shared<ChargedRecord>(
      *record, ChargeOf(context_.memory, &EngineMemory::histories));
  charged->charge.Set(PromptBytes(*record));
  session.newest_call = std::move(charged);
  auto& ids = session.request_ids;
  if (!undone && std::find(ids.begin(), ids.end(), record->request_id) == ids.end()) {
    ids.push_back(record->request_id);
  }
}

absl::StatusOr<std::vector<int32_t>> SessionPersistence::ReadHistory(
    const Session& session) {
  std::vector<int32_t> tokens;
  std::optional<uint64_t> before;
  absl::Status status;
  const SessionKey key{.id = session.id};
  const auto damaged = [&] {
    status.Update(
        engine_errors::SessionDamaged(session.id, static_cast<int64_t>(tokens.size())));
  };
  MNEMON_RETURN_IF_ERROR(store_.Scan(
      StoreTable::kJournal, {.session = key},
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
  MNEMON_RETURN_IF_ERROR(CheckTokens(tokens, session.model));
  return tokens;
}

absl::Status SessionPersistence::CheckTokens(const std::vector<int32_t>& tokens,
                                             size_t model) const {
  for (size_t i = 0; i < tokens.size(); ++i) {
    MNEMON_RETURN_IF_ERROR(
        CheckToken(tokens[i], i, "history", runners_[model]->vocab()));
  }
  return absl::OkStatus();
}

absl::Status SessionPersistence::SetHistory(Session& session,
                                            const std::vector<int32_t>& tokens) {
  if (!session.history.Stage(tokens, 0)) return engine_errors::MemoryLimit();
  const uint64_t version = session.history.version();
  session.history.AppendStaged();
  session.history.SetVersion(version);
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
    loaded = session->resident || HasRoom(bytes) ? LoadHistory(*session)
                                                 : engine_errors::MemoryLimit();
    return !absl::IsResourceExhausted(loaded);
  };
  if (!patient) {
    if (!fits()) GiveUpHistories(bytes);
  } else {
    MakeRoom(bytes, Short::kResting, fits);
  }
  MNEMON_RETURN_IF_ERROR(loaded);
  return std::shared_ptr<Session>(use, session.get());
}

absl::StatusOr<std::shared_ptr<Session>> SessionPersistence::UseWithCheckpoints(
    const std::shared_ptr<Session>& session) {
  MNEMON_ASSIGN_OR_RETURN(std::shared_ptr<Session> used, Use(session));
  for (const SessionCheckpoint& checkpoint :
       context_.directory.CheckpointsOf(*session)) {
    const absl::Status loaded = LoadCheckpoint(*session, checkpoint);
    if (!loaded.ok() && !absl::IsDataLoss(loaded)) return loaded;
  }
  return used;
}

bool SessionPersistence::HasRoom(int64_t bytes) const {
  const EngineMemory& memory = *context_.memory;
  return memory.resting.used() <= memory.resting.limit() - bytes &&
         memory.budget.used() <= memory.budget.limit() - bytes;
}

absl::Status SessionPersistence::LoadCheckpoint(const Session& owner,
                                                const SessionCheckpoint& checkpoint) {
  const Session& at = *checkpoint.at;
  const int64_t bytes = at.resident ? 0 : at.history.BytesOf(at.stored_tokens);
  absl::Status loaded;
  MakeRoom(bytes, Short::kResting, [&] {
    loaded = at.resident || HasRoom(bytes) ? LoadHistory(owner, checkpoint)
                                           : engine_errors::MemoryLimit();
    return !absl::IsResourceExhausted(loaded);
  });
  return loaded;
}

absl::Status SessionPersistence::LoadHistory(Session& session) try {
  if (session.resident) return absl::OkStatus();
  std::lock_guard loading(LoadingOf(session));
  if (session.resident) return absl::OkStatus();
  const auto tokens = ReadHistory(session);
  if (tokens.ok()) return SetHistory(session, *tokens);
  // It was deleted meanwhile, or the store has that and the directory is about to.
  if ((absl::IsDataLoss(tokens.status()) && session.journal->leaves_store()) ||
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

absl::Status SessionPersistence::LoadHistory(const Session& owner,
                                             const SessionCheckpoint& checkpoint) try {
  Session& at = *checkpoint.at;
  if (at.resident) return absl::OkStatus();
  std::lock_guard loading(LoadingOf(owner));
  if (at.resident) return absl::OkStatus();
  const absl::StatusOr<std::optional<std::string>> bytes =
      store_.Get(StoreTable::kCheckpoints, {.id = owner.id}, checkpoint.id);
  if (!bytes.ok() && !absl::IsDataLoss(bytes.status())) return bytes.status();
  const auto tokens = ParseTokens(bytes.ok() ? bytes->value_or("?") : "?");
  if (tokens.ok() && CheckTokens(*tokens, owner.model).ok()) {
    return SetHistory(at, *tokens);
  }
  LogError(StrCat("session ", owner.id, ": the history of its checkpoint ",
                  checkpoint.id, " is missing or damaged"));
  return engine_errors::CheckpointDamaged(owner.id, checkpoint.id);
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
  const auto read = [this, name] { return store_.GetSnapshot(name); };
  RestoreFrom(
      session, session->id, read,
      [this, session, name, next = std::move(next)](const absl::Status& status) {
        // Not there: newer ones have taken its place, or power failed.
        if (!absl::IsDataLoss(status) && !absl::IsNotFound(status)) return next();
        session->journal->Forget(name);
        Restore(session, next);
      });
}

void SessionPersistence::Restore(const Session& owner,
                                 const SessionCheckpoint& checkpoint,
                                 std::function<void()> next) {
  const std::string name = owner.journal == nullptr
                               ? std::string()
                               : owner.journal->SnapshotOfCheckpoint(checkpoint.id);
  if (name.empty() || checkpoint.at->state_bytes > 0) return next();
  RestoreFrom(
      checkpoint.at, owner.id, [this, name] { return store_.GetSnapshot(name); },
      [next = std::move(next)](const absl::Status&) { next(); });
}

void SessionPersistence::RestoreFrom(const std::shared_ptr<Session>& session,
                                     const std::string& id,
                                     std::function<absl::StatusOr<std::string>()> read,
                                     std::function<void(absl::Status)> next) {
  const auto begin = SteadyClock::now();
  OnAnswer<bool> on_done = [this, begin, id,
                            next = std::move(next)](absl::StatusOr<bool> restored) {
    const auto took = SteadyClock::now() - begin;
    if (absl::IsDataLoss(restored.status())) {
      std::lock_guard lock(mutex_);
      ++stats_.damaged_snapshots;
    }
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
    RestoreState(PlaceOf(session->model), session, MakeCopy(session->model),
                 std::move(read), on_done);
    return absl::OkStatus();
  });
  if (!begun.ok()) on_done(begun);
}

}  // namespace mnemon
