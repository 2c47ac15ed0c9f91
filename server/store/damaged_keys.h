// SPDX-License-Identifier: MIT
// Reading past what is damaged in a copy of the store.
#pragma once

#include <string>

#include "rocksdb/status.h"
#include "server/store/store_copy.h"
#include "server/store/store_key.h"

namespace mnemon {

// Whether what could not be read is lost to this copy: damaged, or missing.
bool IsDamage(const rocksdb::Status& status);

// The smallest key of `span` from which on `copy` can read; span.end: there is none.
std::string FirstReadable(StoreCopy& copy, StoreTable table, const StoreKeySpan& span);

// What lies between `from`, a key that was read with a byte behind it, and `next`,
// which comes before `end` if there is such a key.
UnreadableRange UnreadableBetween(StoreTable table, const std::string& from,
                                  const std::string& next, const std::string& end);

}  // namespace mnemon
