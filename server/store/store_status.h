// SPDX-License-Identifier: MIT
// RocksDB's errors as those of the session store.
#pragma once

#include "absl/status/status.h"
#include "rocksdb/status.h"

namespace mnemon {

// The reasons of session_store.h. RocksDB's own text, which names files, goes to the
// log as event store_error, not into the message. OK for OK.
absl::Status StoreStatus(const rocksdb::Status& status);

// Whether the process, or the system, had no descriptors or memory left: what was asked
// for is there all the same.
bool LackedResources(const rocksdb::Status& status);

}  // namespace mnemon
