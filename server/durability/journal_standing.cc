// SPDX-License-Identifier: MIT
#include "server/durability/journal_standing.h"

#include <utility>

#include "server/requests/engine_errors.h"

namespace mnemon {

bool JournalStanding::Gathers() const {
  return durable() &&
         (state == State::kReady || (state == State::kNeedsBase && copies_base));
}

absl::Status JournalStanding::End(const std::string& id) const {
  if (state == State::kDeleted) return engine_errors::NotFound(id);
  return state == State::kFailed && Waits() ? failure : absl::OkStatus();
}

void JournalStanding::NeedBase() {
  state = State::kNeedsBase;
  copies_base = false;
  in_store = true;
  deletion.unstoring = false;
}

void JournalStanding::Fail(const absl::Status& status) {
  state = State::kFailed;
  failure = status;
  unreported = true;
}

bool JournalStanding::TakeDeletion(TakenChanges& taken, GatheredChanges& gathered,
                                   std::vector<OnSynced>& deleters) {
  deletion.due = false;
  taken.anything = taken.deleted = taken.sync = true;
  taken.waiters.swap(deleters);
  deletion.taken = deletion.tried;
  if (state == State::kDeleted) {
    taken.refused.swap(gathered.waiters);
  } else if (deletion.tried) {
    // What else there is to write waits for the outcome.
    return false;
  } else if (durable()) {
    // It is durable again: what it then needs follows.
    taken.again = true;
    return false;
  } else {
    taken.waiters.swap(gathered.waiters);
  }
  taken.dropped.swap(gathered.dropped);
  gathered.checkpoints.clear();
  gathered.record = false;
  return true;
}

}  // namespace mnemon
