// SPDX-License-Identifier: MIT
// A store as a start finds it: brought to the present format, then surveyed from end to
// end for each session's record and for how much of its history is whole.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "server/durability/bounded_reads.h"
#include "server/durability/stored_journal.h"
#include "server/sessions/stored_session.h"
#include "server/store/session_store.h"

namespace mnemon {

struct SurveyedSession {
  // Absent: there is none, or it cannot be read.
  std::optional<StoredSession> record;
  absl::Status damage;  // OK, or what is damaged
  // Up to the first damage: the journal, and tokens of the history.
  StoredJournal::Stored journal;
  int64_t tokens = 0;
  bool has_journal = false;
  size_t model = 0;  // its index, set by SessionRecovery
};

struct StoreSurvey {
  std::map<std::string, SurveyedSession> sessions;  // by id
  // Sessions at whose end more may be missing than can be known: some keys after the
  // last one that was read cannot be read.
  std::vector<std::string> doubtful;
};

// Brings the sessions of a store of format 1 to format 2. There a history is that of
// the newest snapshot that is whole, with the journal's entries after its sequence; and
// snapshots and those of checkpoints lie in the database. No effect on a store that
// does not need it. Session by session: what was cut short goes on. One that is damaged
// stays as it is. The errors of SessionStore.
absl::Status UpgradeStore(SessionStore& store);

// Surveys the default namespace. Errors of SessionStore::Scan.
absl::StatusOr<StoreSurvey> SurveyStore(SessionStore& store);
// Surveys one session. Errors of BoundedReads.
absl::StatusOr<SurveyedSession> SurveySession(BoundedReads& reads,
                                              const std::string& id);

}  // namespace mnemon
