// SPDX-License-Identifier: MIT
// What RocksDB gets for one copy of a session store: a file system and options.
#pragma once

#include <memory>
#include <vector>

#include "rocksdb/cache.h"
#include "rocksdb/db.h"
#include "rocksdb/env.h"
#include "rocksdb/file_system.h"
#include "server/store/session_store.h"

namespace mnemon {

// The files of `base`, private to the user. Every log but the last is durable: it is
// synced, and so is its name, before the next one is made. A new file replaces a link
// of its name, and not what that leads to. Safe for concurrent use.
std::shared_ptr<rocksdb::FileSystem> MakeStoreFileSystem(
    std::shared_ptr<rocksdb::FileSystem> base);

struct StoreDatabaseOptions {
  std::unique_ptr<rocksdb::Env> environment;  // outlives the database
  rocksdb::DBOptions database;
  // RocksDB's own "default", for what the copy says of itself, then those of
  // StoreTable in its order.
  std::vector<rocksdb::ColumnFamilyDescriptor> tables;
  std::shared_ptr<rocksdb::Cache> cache;
};

// `base`: for MakeStoreFileSystem. `format_1`: with kSnapshotsOfFormat1.
StoreDatabaseOptions MakeStoreOptions(const SessionStoreOptions& options,
                                      std::shared_ptr<rocksdb::FileSystem> base,
                                      bool format_1);

}  // namespace mnemon
