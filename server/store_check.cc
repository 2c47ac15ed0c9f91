// SPDX-License-Identifier: MIT
#include "server/store_check.h"

#include <cstdint>
#include <iostream>
#include <memory>
#include <utility>
#include <vector>

#include "base/error.h"
#include "base/status_macros.h"
#include "base/strings.h"
#include "server/durability/journal_entry.h"
#include "server/durability/store_survey.h"
#include "server/store/session_store.h"

namespace mnemon {
namespace {

// The time limit for comparing both copies.
constexpr int kMostSeconds = 3600;

void Say(const std::string& line) { std::cout << line << std::endl; }

absl::Status Damaged(std::string what) {
  return MakeError(absl::StatusCode::kDataLoss, std::move(what),
                   {.reason = "STORE_DAMAGED"});
}

// Counts snapshots that are damaged or missing. Their states are computed again.
int64_t CountLostSnapshots(SessionStore& store, const StoreSurvey& survey) {
  int64_t lost = 0;
  const auto look = [&](const StoredSnapshot& snapshot) {
    if (!snapshot.name.empty() && !store.GetSnapshot(snapshot.name).ok()) ++lost;
  };
  for (const auto& [id, session] : survey.sessions) {
    for (const StoredSnapshot& snapshot : session.journal.snapshots) look(snapshot);
    for (const StoredCheckpoint& kept : session.journal.checkpoints) {
      look(kept.snapshot);
    }
  }
  return lost;
}

int64_t SayDamaged(const StoreSurvey& survey) {
  int64_t damaged = 0;
  for (const auto& [id, session] : survey.sessions) {
    if (session.damage.ok()) continue;
    ++damaged;
    Say(StrCat("session ", id, ": damaged: ", session.damage.message(),
               "; whole up to ", session.tokens, " tokens"));
  }
  for (const std::string& id : survey.doubtful) {
    Say(StrCat("session ", id, ": the end of its history may be missing"));
  }
  return damaged;
}

// The tokens of the journal up to its first damage: all of its whole entries, as a
// later one may take back tokens of those before.
absl::StatusOr<std::vector<int32_t>> WholeTokens(SessionStore& store,
                                                 const std::string& id,
                                                 const SurveyedSession& session) {
  std::vector<int32_t> tokens;
  MNEMON_RETURN_IF_ERROR(store.Scan(
      StoreTable::kJournal, {.session = SessionKey{.id = id}},
      [&](const SessionKey&, std::string_view name, std::string_view value) {
        if (JournalSequence(name).value_or(0) > session.journal.sequence) return false;
        const absl::StatusOr<JournalEntry> entry = ParseJournalEntry(value);
        return entry.ok() && ApplyJournalEntry(*entry, tokens).ok();
      },
      [](const UnreadableRange&) {}));
  if (static_cast<int64_t>(tokens.size()) != session.tokens) {
    return Damaged(StrCat("session ", id, ": its journal has changed"));
  }
  return tokens;
}

absl::Status CutSession(SessionStore& store, const std::string& id,
                        const SurveyedSession& session) {
  StoredSession record = *session.record;
  MNEMON_ASSIGN_OR_RETURN(const std::vector<int32_t> tokens,
                          WholeTokens(store, id, session));
  MNEMON_ASSIGN_OR_RETURN(const std::optional<std::string> before,
                          store.Get(StoreTable::kSessions, {.id = id}, ""));
  record.sequence = 1;
  // It cannot be resumed after what is missing.
  record.newest_call.clear();
  record.scored_from.reset();
  std::erase_if(record.snapshots, [&](const StoredSnapshot& snapshot) {
    return snapshot.computed > session.tokens;
  });
  const std::string name = JournalName(record.sequence);
  const std::string entry = FormatJournalEntry(0, tokens);
  const std::string text =
      before.value_or(RecordExpiry(0)).substr(0, RecordExpiry(0).size()) +
      FormatStoredSession(record);
  SessionChanges changes{
      .session = {.id = id},
      .changes = {
          {.table = StoreTable::kJournal, .kind = StoreChange::Kind::kDeleteAll},
          {.table = StoreTable::kJournal, .name = name, .value = entry},
          {.table = StoreTable::kSessions, .value = text}}};
  MNEMON_RETURN_IF_ERROR(store.Commit({&changes, 1}, Sync::kYes));
  return changes.status;
}

}  // namespace

absl::Status CheckStore(const std::string& directory) {
  MNEMON_ASSIGN_OR_RETURN(const std::unique_ptr<SessionStore> store,
                          ViewSessionStore(directory));
  MNEMON_ASSIGN_OR_RETURN(const StoreSurvey survey, SurveyStore(*store));
  const bool compared = store->AwaitWhole(kMostSeconds);
  const StoreCondition condition = store->condition();
  bool whole = compared;
  int64_t behind = 0;
  for (const int which : {0, 1}) {
    Say(StrCat("copy ", which == 0 ? "a" : "b", ": ", condition.found[which]));
    const bool catches_up =
        condition.found[which] == kCopyBehind || condition.found[which] == kCopyFilling;
    behind += catches_up;
    whole = whole && (catches_up || condition.found[which] == kCopyWhole);
  }
  whole = whole && condition.rebuilds <= behind;
  if (!compared) {
    Say("both copies are damaged: --repair gathers what can be read of them");
  } else if (condition.rebuilds > behind) {
    Say("one copy is not as the other: a start of the server makes it whole");
  }
  if (condition.lost_commits > 0 || condition.unreadable > 0) {
    whole = false;
    Say(StrCat("lost in both copies: ", condition.lost_commits, " commits at the end, ",
               condition.unreadable, " places that cannot be read"));
  }
  const int64_t damaged = SayDamaged(survey);
  const int64_t snapshots = CountLostSnapshots(*store, survey);
  Say(StrCat(
      "sessions: ", survey.sessions.size(), ", of them damaged: ", damaged,
      "; snapshots that are lost, whose states are computed again: ", snapshots));
  if (whole && damaged == 0 && survey.doubtful.empty()) return absl::OkStatus();
  return Damaged(StrCat("the store in ", directory, " is damaged"));
}

absl::Status RepairStore(const std::string& directory) {
  MNEMON_RETURN_IF_ERROR(RepairSessionStore(directory, Say));
  MNEMON_ASSIGN_OR_RETURN(const std::unique_ptr<SessionStore> store,
                          OpenSessionStore(directory));
  MNEMON_RETURN_IF_ERROR(UpgradeStore(*store));
  MNEMON_ASSIGN_OR_RETURN(const StoreSurvey survey, SurveyStore(*store));
  int64_t kept = 0;
  for (const auto& [id, session] : survey.sessions) {
    if (session.damage.ok()) continue;
    if (!session.record || session.record->format < StoredSession::kFormat) {
      ++kept;
      Say(StrCat("session ", id, ": kept as it is: ", session.damage.message()));
      continue;
    }
    MNEMON_RETURN_IF_ERROR(CutSession(*store, id, session));
    Say(StrCat("session ", id, ": cut to the ", session.tokens,
               " tokens that are whole: ", session.damage.message()));
  }
  if (!store->AwaitWhole(kMostSeconds)) {
    return Damaged(StrCat("the store in ", directory, " has no two whole copies"));
  }
  Say(StrCat("sessions: ", survey.sessions.size(),
             ", of them without a record: ", kept));
  if (kept == 0) return absl::OkStatus();
  return Damaged(
      StrCat(kept, " sessions cannot be served, since their records are lost"));
}

}  // namespace mnemon
