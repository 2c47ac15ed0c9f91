// SPDX-License-Identifier: MIT
#include "server/durability/store_survey.h"

#include <algorithm>
#include <utility>

#include "base/error.h"
#include "base/out_of_memory.h"
#include "base/status_macros.h"
#include "base/strings.h"
#include "server/durability/journal_entry.h"

namespace mnemon {
namespace {

absl::Status Damage(std::string what) {
  return MakeError(absl::StatusCode::kDataLoss, std::move(what),
                   {.reason = "SESSION_DAMAGED"});
}

void TakeRecord(SurveyedSession& session, std::string_view value) {
  absl::StatusOr<StoredSession> record =
      ParseStoredSession(std::string(RecordText(value)));
  if (!record.ok()) {
    session.damage = record.status();
    return;
  }
  session.journal.snapshots = record->snapshots;
  session.journal.checkpoints = record->checkpoints;
  session.record = *std::move(record);
}

// Once something is missing nothing behind it counts.
void TakeEntry(SurveyedSession& session, std::string_view name,
               std::string_view value) {
  StoredJournal::Stored& journal = session.journal;
  const bool first = !std::exchange(session.has_journal, true);
  if (!session.damage.ok()) return;
  const uint64_t sequence = JournalSequence(name).value_or(0);
  const absl::StatusOr<JournalEntry> entry = ParseJournalEntry(value);
  if (!entry.ok()) {
    session.damage = entry.status();
  } else if (!first && sequence != journal.sequence + 1) {
    session.damage =
        Damage(StrCat("entry ", journal.sequence + 1, " of its journal is missing"));
  } else if (entry->kept > session.tokens) {
    session.damage =
        Damage(StrCat("entries of its journal before ", sequence, " are missing"));
  } else {
    const auto tokens = static_cast<int64_t>(entry->tokens.size());
    journal.sequence = sequence;
    session.tokens = entry->kept + tokens;
    if (first) {
      journal.folded = tokens;
    } else {
      ++journal.entries;
      journal.tokens += tokens;
    }
  }
}

// What the record tells of the journal.
void CompareWithRecord(SurveyedSession& session) {
  if (!session.damage.ok()) return;
  if (!session.record) {
    session.damage = Damage("its record is missing");
  } else if (session.record->format < StoredSession::kFormat) {
    session.damage = Damage("it was damaged when the store was brought to format 2");
  } else if (session.journal.sequence < session.record->sequence) {
    session.damage =
        Damage(StrCat("entries of its journal from ", session.journal.sequence + 1,
                      " to ", session.record->sequence, " are missing"));
  }
}

}  // namespace

absl::StatusOr<SurveyedSession> SurveySession(SessionStore& store,
                                              const std::string& id) {
  SurveyedSession session;
  const absl::StatusOr<std::optional<std::string>> record =
      store.Get(StoreTable::kSessions, {.id = id}, {});
  if (!record.ok() && !absl::IsDataLoss(record.status())) return record.status();
  if (!record.ok()) session.damage = Damage("its record cannot be read");
  if (record.ok() && *record) TakeRecord(session, **record);
  MNEMON_RETURN_IF_ERROR(store.Scan(
      StoreTable::kJournal, {.session = SessionKey{.id = id}},
      [&](const SessionKey&, std::string_view name, std::string_view value) {
        TakeEntry(session, name, value);
        return true;
      },
      [&](const UnreadableRange&) {
        session.damage.Update(Damage("its journal cannot be read"));
      }));
  CompareWithRecord(session);
  return session;
}

absl::StatusOr<StoreSurvey> SurveyStore(SessionStore& store) {
  StoreSurvey survey;
  absl::Status status;
  const auto visit = [&](const auto& take) {
    return [&survey, &status, take](const SessionKey& key, std::string_view name,
                                    std::string_view value) {
      if (key.space != kDefaultNamespace) return true;
      status = CatchOutOfMemory({}, [&] {
        take(survey.sessions[std::string(key.id)], name, value);
        return absl::OkStatus();
      });
      return status.ok();
    };
  };
  MNEMON_RETURN_IF_ERROR(store.Scan(
      StoreTable::kSessions, {}, visit([](SurveyedSession& session, auto, auto value) {
        TakeRecord(session, value);
      }),
      nullptr));
  MNEMON_RETURN_IF_ERROR(status);
  MNEMON_RETURN_IF_ERROR(store.Scan(StoreTable::kJournal, {}, visit(TakeEntry),
                                    [&survey](const UnreadableRange& range) {
                                      if (range.first_space == kDefaultNamespace) {
                                        survey.doubtful.push_back(range.first_id);
                                      }
                                    }));
  MNEMON_RETURN_IF_ERROR(status);
  for (auto& [id, session] : survey.sessions) CompareWithRecord(session);
  std::erase_if(survey.doubtful, [&](const std::string& id) {
    const auto found = survey.sessions.find(id);
    return found == survey.sessions.end() || !found->second.damage.ok();
  });
  return survey;
}

}  // namespace mnemon
