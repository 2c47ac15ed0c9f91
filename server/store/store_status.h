// SPDX-License-Identifier: MIT
// RocksDB's errors as those of the session store.
#pragma once

#include <string>

#include "absl/status/status.h"
#include "rocksdb/status.h"

namespace mnemon {

// `status` with a reason of session_store.h; OK for OK. RocksDB's own text, which names
// files, goes to the log as event store_error and not into the message.
absl::Status StoreStatus(const rocksdb::Status& status);

// DATA_LOSS, STORE_DAMAGED.
absl::Status StoreDamaged(std::string message);

// Whether this copy has lost what could not be read: it is damaged or missing. False
// where the process or the system had no descriptors or memory left.
bool IsDamage(const rocksdb::Status& status);

}  // namespace mnemon
