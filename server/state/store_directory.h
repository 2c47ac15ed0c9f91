// SPDX-License-Identifier: MIT
// The directory of a session store: who has it open, which format it has, and that
// nothing in it leads elsewhere. In it lie LOCK (the owner's process id), FORMAT, and
// the database in db/.
#pragma once

#include <string>

#include "absl/status/statusor.h"
#include "base/descriptor.h"

namespace mnemon {

// Holds the lock until it is destroyed; the system drops it when the process ends,
// however that comes.
class StoreDirectory {
 public:
  // As OpenSessionStore, but for what is wrong within the database.
  static absl::StatusOr<StoreDirectory> Open(const std::string& path);

  const std::string& path() const { return path_; }
  std::string database() const { return path_ + "/db"; }
  // 16 bytes that were drawn when the store was created.
  const std::string& id() const { return id_; }

 private:
  StoreDirectory(std::string path, Descriptor lock, std::string id)
      : path_(std::move(path)), lock_(std::move(lock)), id_(std::move(id)) {}

  std::string path_;
  Descriptor lock_;
  std::string id_;
};

}  // namespace mnemon
