// SPDX-License-Identifier: MIT
// RocksDB's options for a session store.
#pragma once

#include <memory>
#include <vector>

#include "rocksdb/cache.h"
#include "rocksdb/db.h"
#include "rocksdb/options.h"
#include "server/store/session_store.h"

namespace mnemon {

struct StoreDatabaseOptions {
  rocksdb::DBOptions database;
  // RocksDB's own "default", for what the copy says of itself; the tables in the order
  // of StoreTable, the last one only if there is one.
  std::vector<rocksdb::ColumnFamilyDescriptor> tables;
  std::shared_ptr<rocksdb::Cache> cache;
};

// Of one copy. `environment` outlives the database; `listener` hears of background
// errors. `format_1`: it has the table kSnapshotsOfFormat1.
StoreDatabaseOptions MakeStoreOptions(const SessionStoreOptions& options,
                                      rocksdb::Env* environment,
                                      std::shared_ptr<rocksdb::EventListener> listener,
                                      bool format_1);

}  // namespace mnemon
