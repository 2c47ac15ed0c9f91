// SPDX-License-Identifier: MIT
// What a store has of each session, read from end to end: its record, and how much of
// its history is whole.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "server/durability/stored_journal.h"
#include "server/sessions/stored_session.h"
#include "server/store/session_store.h"

namespace mnemon {

struct SurveyedSession {
  // Absent: there is none, or it cannot be read.
  std::optional<StoredSession> record;
  // OK, or what is damaged.
  absl::Status damage;
  // The journal up to the first damage.
  StoredJournal::Stored journal;
  // Of the history, up to the first damage.
  int64_t tokens = 0;
  bool has_journal = false;
};

struct StoreSurvey {
  std::map<std::string, SurveyedSession> sessions;  // by id
  // Sessions at whose end more may be missing than can be known: some keys behind the
  // last one that was read cannot be.
  std::vector<std::string> doubtful;
};

// Of the default namespace. The errors of SessionStore::Scan.
absl::StatusOr<StoreSurvey> SurveyStore(SessionStore& store);
// Of one session. The errors of SessionStore::Get and Scan.
absl::StatusOr<SurveyedSession> SurveySession(SessionStore& store,
                                              const std::string& id);

}  // namespace mnemon
