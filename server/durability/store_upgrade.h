// SPDX-License-Identifier: MIT
// Brings the sessions of a store of format 1 to format 2. There a history is that of
// the newest snapshot that is whole, with the journal's entries behind its sequence;
// and snapshots and those of checkpoints lie in the database.
#pragma once

#include "absl/status/status.h"
#include "server/store/session_store.h"

namespace mnemon {

// No effect on a store that does not need it. Session by session: what was cut short
// goes on. One that is damaged stays as it is. The errors of SessionStore.
absl::Status UpgradeStore(SessionStore& store);

}  // namespace mnemon
