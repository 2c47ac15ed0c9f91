// SPDX-License-Identifier: MIT
// A scan of a table that several copies have.
#pragma once

#include <functional>
#include <span>

#include "absl/status/status.h"
#include "server/store/session_store.h"
#include "server/store/store_copy.h"
#include "server/store/store_key.h"

namespace mnemon {

// Visits the keys of `span` as SessionStore::Scan does: what a copy cannot read is read
// from the next one, and what none can is told to `unreadable`. `damaged` gets the
// index of each copy in which something could not be read. The copies are not empty.
absl::Status ScanCopies(std::span<StoreCopy* const> copies, StoreTable table,
                        StoreKeySpan span, const SessionStore::Visit& visit,
                        const SessionStore::Unreadable& unreadable,
                        const std::function<void(size_t)>& damaged);

}  // namespace mnemon
