// SPDX-License-Identifier: MIT
// RocksDB's options for a session store.
#pragma once

#include <memory>
#include <vector>

#include "rocksdb/cache.h"
#include "rocksdb/db.h"
#include "rocksdb/options.h"
#include "server/state/dead_key_filter.h"
#include "server/state/session_store.h"

namespace mnemon {

struct StoreDatabaseOptions {
  rocksdb::DBOptions database;
  // In the order of StoreTable, after RocksDB's own "default", which stays empty.
  std::vector<rocksdb::ColumnFamilyDescriptor> tables;
  std::shared_ptr<rocksdb::Cache> cache;
};

// `environment` outlives the database; `listener` hears of background errors.
StoreDatabaseOptions MakeStoreOptions(const SessionStoreOptions& options,
                                      rocksdb::Env* environment,
                                      std::shared_ptr<rocksdb::EventListener> listener,
                                      std::shared_ptr<const LiveSessions> live);

}  // namespace mnemon
