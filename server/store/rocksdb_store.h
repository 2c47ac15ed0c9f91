// SPDX-License-Identifier: MIT
// The session store on a file system of the caller's choice, for tests of its failures.
#pragma once

#include <memory>
#include <string>

#include "absl/status/statusor.h"
#include "rocksdb/file_system.h"
#include "server/store/session_store.h"

namespace mnemon {

// As OpenSessionStore; the database, below `directory`/db, lies on `files`.
absl::StatusOr<std::unique_ptr<SessionStore>> OpenSessionStoreOn(
    std::shared_ptr<rocksdb::FileSystem> files, const std::string& directory,
    const SessionStoreOptions& options);

}  // namespace mnemon
