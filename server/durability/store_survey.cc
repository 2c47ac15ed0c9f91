// SPDX-License-Identifier: MIT
#include "server/durability/store_survey.h"

#include <algorithm>
#include <deque>
#include <utility>

#include "base/error.h"
#include "base/log.h"
#include "base/out_of_memory.h"
#include "base/status_macros.h"
#include "base/strings.h"
#include "server/durability/journal_entry.h"
#include "server/snapshots/snapshot.h"

namespace mnemon {
namespace {

using Tokens = std::vector<int32_t>;

struct OldSnapshot {
  std::string bytes;
  Tokens tokens;
};

absl::StatusOr<OldSnapshot> ReadOld(SessionStore& store, const SessionKey& session,
                                    const std::string& name) {
  MNEMON_ASSIGN_OR_RETURN(std::optional<std::string> bytes,
                          store.Get(StoreTable::kSnapshotsOfFormat1, session, name));
  if (!bytes) return absl::DataLossError("a snapshot is missing");
  MNEMON_ASSIGN_OR_RETURN(Snapshot snapshot,
                          DecodeSnapshot(*bytes, {.tokens = int64_t{1} << 40}));
  return OldSnapshot{.bytes = *std::move(bytes), .tokens = std::move(snapshot.tokens)};
}

// `tokens` with the entries after `sequence`, which becomes that of the last one.
absl::Status ApplyJournal(SessionStore& store, const SessionKey& session,
                          uint64_t& sequence, Tokens& tokens) {
  absl::Status status;
  const std::string from = JournalName(sequence + 1);
  MNEMON_RETURN_IF_ERROR(store.Scan(
      StoreTable::kJournal, {.session = session, .from = from},
      [&](const SessionKey&, std::string_view name, std::string_view value) {
        const absl::StatusOr<JournalEntry> entry = ParseJournalEntry(value);
        status = JournalSequence(name) != ++sequence
                     ? absl::DataLossError("an entry of the journal is missing")
                 : entry.ok() ? ApplyJournalEntry(*entry, tokens)
                              : entry.status();
        return status.ok();
      },
      [&](const UnreadableRange&) {
        status.Update(absl::DataLossError("the journal cannot be read"));
      }));
  return status;
}

// The history of `record`; its snapshots become those that are whole, with their names
// of format 2.
absl::StatusOr<Tokens> TakeHistory(SessionStore& store, const SessionKey& session,
                                   StoredSession& record) {
  std::vector<StoredSnapshot> old = std::exchange(record.snapshots, {});
  absl::Status damage;
  while (true) {
    uint64_t sequence = 0;
    Tokens tokens;
    std::optional<StoredSnapshot> newest;
    if (!old.empty()) {
      newest = std::move(old.back());
      old.pop_back();
      absl::StatusOr<OldSnapshot> read = ReadOld(store, session, newest->name);
      if (absl::IsDataLoss(read.status())) {
        damage = read.status();
        continue;
      }
      MNEMON_RETURN_IF_ERROR(read.status());
      sequence = newest->sequence;
      tokens = std::move(read->tokens);
      MNEMON_ASSIGN_OR_RETURN(newest->name, store.PutSnapshot(read->bytes));
    } else if (!damage.ok()) {
      return damage;
    }
    const absl::Status applied = ApplyJournal(store, session, sequence, tokens);
    if (applied.ok()) {
      if (newest) record.snapshots.push_back(*std::move(newest));
      record.sequence = std::max<uint64_t>(sequence, 1);
      return tokens;
    }
    if (!absl::IsDataLoss(applied) || !newest) return applied;
    damage = applied;
  }
}

absl::Status UpgradeSession(SessionStore& store, const std::string& id,
                            std::string_view expiry, StoredSession record) {
  const SessionKey key{.id = id};
  MNEMON_ASSIGN_OR_RETURN(const Tokens tokens, TakeHistory(store, key, record));
  std::deque<std::string> texts;
  SessionChanges changes{.session = key, .changes = {}};
  const auto add = [&](StoreTable table, StoreChange::Kind kind, std::string_view name,
                       std::string value) {
    changes.changes.push_back({.table = table,
                               .kind = kind,
                               .name = name,
                               .value = texts.emplace_back(std::move(value))});
  };
  using Kind = StoreChange::Kind;
  add(StoreTable::kJournal, Kind::kDeleteAll, {}, {});
  add(StoreTable::kSnapshotsOfFormat1, Kind::kDeleteAll, {}, {});
  const std::string name = JournalName(record.sequence);
  add(StoreTable::kJournal, Kind::kPut, name, FormatJournalEntry(0, tokens));
  for (StoredCheckpoint& checkpoint : record.checkpoints) {
    absl::StatusOr<OldSnapshot> read = ReadOld(store, key, checkpoint.snapshot.name);
    checkpoint.snapshot.name.clear();
    if (absl::IsDataLoss(read.status())) continue;  // damaged before, and after
    MNEMON_RETURN_IF_ERROR(read.status());
    MNEMON_ASSIGN_OR_RETURN(checkpoint.snapshot.name, store.PutSnapshot(read->bytes));
    add(StoreTable::kCheckpoints, Kind::kPut, checkpoint.id,
        FormatTokens(read->tokens));
  }
  add(StoreTable::kSessions, Kind::kPut, {},
      std::string(expiry) + FormatStoredSession(record));
  MNEMON_RETURN_IF_ERROR(store.Commit({&changes, 1}, Sync::kNo));
  return changes.status;
}

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

// Once something is missing nothing after it counts.
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

absl::Status UpgradeStore(SessionStore& store) {
  if (!store.needs_upgrade()) return absl::OkStatus();
  int64_t upgraded = 0, damaged = 0;
  absl::Status status;
  MNEMON_RETURN_IF_ERROR(store.Scan(
      StoreTable::kSessions, {},
      [&](const SessionKey& key, std::string_view, std::string_view value) {
        const std::string_view text = RecordText(value);
        absl::StatusOr<StoredSession> record = ParseStoredSession(std::string(text));
        if (!record.ok() || record->format == StoredSession::kFormat) return true;
        status = UpgradeSession(store, std::string(key.id),
                                value.substr(0, value.size() - text.size()),
                                *std::move(record));
        if (absl::IsDataLoss(status)) {
          LogError(StrCat("session ", key.id, " is damaged: ", status.message()));
          status = absl::OkStatus();
          ++damaged;
        } else if (status.ok()) {
          ++upgraded;
        }
        return status.ok();
      },
      nullptr));
  MNEMON_RETURN_IF_ERROR(status);
  LogInfo(StrCat("the store was brought to format ", StoredSession::kFormat, ": ",
                 upgraded, " sessions",
                 damaged > 0 ? StrCat(", ", damaged, " damaged") : std::string()));
  return store.FinishUpgrade();
}

absl::StatusOr<SurveyedSession> SurveySession(BoundedReads& reads,
                                              const std::string& id) {
  SurveyedSession session;
  const absl::StatusOr<std::optional<std::string>> record =
      reads.Get(StoreTable::kSessions, {.id = id}, {});
  if (!record.ok() && !absl::IsDataLoss(record.status())) return record.status();
  if (!record.ok()) session.damage = Damage("its record cannot be read");
  if (record.ok() && *record) TakeRecord(session, **record);
  MNEMON_RETURN_IF_ERROR(reads.ScanJournal(
      {.id = id},
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
