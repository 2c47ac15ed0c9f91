// SPDX-License-Identifier: MIT
#include "server/durability/session_recovery.h"

#include <algorithm>
#include <iterator>
#include <new>
#include <utility>
#include <vector>

#include "base/log.h"
#include "base/out_of_memory.h"
#include "base/status_macros.h"
#include "base/strings.h"
#include "server/requests/engine_errors.h"

namespace mnemon {

using SteadyClock = std::chrono::steady_clock;

absl::StatusOr<Recovery> SessionRecovery::Recover() {
  Recovery recovery;
  context_.directory.sleep().SetWaker(
      [this](const std::string& id) { return ReadSession(id); });
  MNEMON_RETURN_IF_ERROR(UpgradeStore(stores_.store));
  MNEMON_ASSIGN_OR_RETURN(StoreSurvey survey, SurveyStore(stores_.store));
  std::vector<std::string> snapshots;
  for (auto found = survey.sessions.begin(); found != survey.sessions.end();) {
    auto& [id, session] = *found;
    for (const StoredSnapshot& kept : session.journal.snapshots) {
      snapshots.push_back(kept.name);
    }
    for (const StoredCheckpoint& kept : session.journal.checkpoints) {
      snapshots.push_back(kept.snapshot.name);
    }
    const absl::Status usable = CheckUsable(id, session);
    if (absl::IsDataLoss(usable)) {
      ++recovery.damaged;
      unusable_.AddDamaged(id, usable);
    } else if (!usable.ok()) {
      ++recovery.foreign;
      unusable_.AddForeign(id, session.record->model);
    }
    found = usable.ok() ? std::next(found) : survey.sessions.erase(found);
  }
  for (const std::string& id : survey.doubtful) {
    LogEvent(LogLevel::kError, "session_doubtful",
             {{"session", id},
              {"detail", std::string("the end of its journal may be missing")}});
  }
  // Snapshots of sessions whose records cannot be read, or are lost, stay.
  const StoreCondition condition = stores_.store.condition();
  stores_.store.CountSnapshots(snapshots,
                               /*remove_others=*/recovery.damaged == 0 &&
                                   condition.lost_commits == 0 &&
                                   condition.unreadable == 0);
  InsertRecovered(std::move(survey.sessions), recovery);
  return recovery;
}

absl::Status SessionRecovery::CheckUsable(const std::string& id,
                                          SurveyedSession& found) const {
  if (!found.damage.ok()) {
    LogEvent(LogLevel::kError, "session_damaged",
             {{"session", id},
              {"whole_tokens", found.tokens},
              {"detail", std::string(found.damage.message())}});
    return engine_errors::SessionDamaged(id, found.tokens);
  }
  const auto model = std::ranges::find_if(stores_.models, [&](const auto& loaded) {
    return loaded.decoder != nullptr && loaded.facts.name == found.record->model &&
           loaded.facts.model_id == found.record->model_id;
  });
  if (model == stores_.models.end()) {
    return engine_errors::SessionOfOtherModel(id, found.record->model);
  }
  found.model = static_cast<size_t>(model - stores_.models.begin());
  return absl::OkStatus();
}

std::shared_ptr<Session> SessionRecovery::MakeFound(const std::string& id,
                                                    SurveyedSession& found) {
  const StoredSession& stored = *found.record;
  auto session = std::make_shared<Session>(id, found.model, context_.memory);
  session->create_time = stored.create_time;
  session->entry.last_use_time = stored.last_use_time;
  session->parent = stored.parent;
  session->rebuilt = stored.rebuilt;
  session->request_id = stored.request_id;
  session->request_text = stored.request_text;
  session->drawn_id = stored.drawn_id;
  session->entry.request_ids.assign(stored.request_ids.begin(),
                                    stored.request_ids.end());
  session->entry.ttl = stored.ttl;
  if (stored.sampling) {
    session->entry.sampling = std::make_shared<const SessionSampling>(*stored.sampling);
  }
  session->entry.paused = stored.paused;
  session->entry.scored_from = stored.scored_from;
  RecoverCall(*session, found);
  session->resident = found.tokens == 0;
  session->stored_tokens = found.tokens;
  if (stored.expire_time && !stored.ttl) session->entry.expires_at = ExpiryOf(stored);
  for (const StoredCheckpoint& kept : stored.checkpoints) {
    auto at = std::make_shared<Session>("", found.model, context_.memory);
    at->charge.Set(Session::kCheckpointBytes);
    at->resident = false;
    at->stored_tokens = kept.snapshot.tokens;
    session->entry.checkpoints.push_back({.id = kept.id,
                                          .request_id = kept.request_id,
                                          .create_time = kept.create_time,
                                          .at = std::move(at)});
  }
  session->journal =
      std::make_shared<StoredJournal>(writer_, id, session, stored.durability,
                                      std::move(found.journal), /*needs_base=*/false);
  if (session->resident) session->history.SetObserver(session->journal.get());
  return session;
}

std::optional<SteadyClock::time_point> SessionRecovery::ExpiryOf(
    const StoredSession& stored) const {
  const auto expiry = stored.expiry();
  if (!expiry) return std::nullopt;
  const Clock& clock = *context_.options.clock;
  return clock.Now() +
         std::chrono::duration_cast<SteadyClock::duration>(*expiry - clock.WallNow());
}

absl::StatusOr<std::shared_ptr<Session>> SessionRecovery::ReadSession(
    const std::string& id) try {
  MNEMON_ASSIGN_OR_RETURN(SurveyedSession found, SurveySession(stores_.reads, id));
  MNEMON_RETURN_IF_ERROR(CheckUsable(id, found));
  return MakeFound(id, found);
} catch (const std::bad_alloc&) {
  return OutOfMemoryError();
}

void SessionRecovery::InsertRecovered(std::map<std::string, SurveyedSession> sessions,
                                      Recovery& recovery) {
  const auto now = context_.options.clock->Now();
  EngineObserver* const observer = context_.options.observer.get();
  while (!sessions.empty()) {
    const auto node = sessions.extract(sessions.begin());
    const std::string& id = node.key();
    const auto expiry = ExpiryOf(*node.mapped().record);
    std::shared_ptr<Session> session = MakeFound(id, node.mapped());
    if (expiry && *expiry <= now) {
      ++recovery.expired;
      if (observer != nullptr) observer->OnSessionEvent(SessionEvent::kExpire);
      session->journal->Delete(nullptr);
      continue;
    }
    ++recovery.sessions;
    context_.directory.Restore(std::move(session), expiry);
    // Where there are many, all but those that are used first stay in the store.
    if (sweeps_.RestingShort()) context_.directory.sleep().Sleep(id);
  }
}

void SessionRecovery::RecoverCall(Session& session, SurveyedSession& found) {
  if (found.record->newest_call.empty()) return;
  const auto record = ParseCallRecord(found.record->newest_call);
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
  session.entry.newest_call = std::move(charged);
  auto& ids = session.entry.request_ids;
  if (!undone && std::ranges::find(ids, record->params->request_id) == ids.end()) {
    ids.push_back(record->params->request_id);
  }
}

}  // namespace mnemon
