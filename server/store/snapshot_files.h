// SPDX-License-Identifier: MIT
// Snapshots of a session store, one file each, named by the hash of its bytes. Two that
// are equal share a file: each file is counted.
#pragma once

#include <atomic>
#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "rocksdb/file_system.h"

namespace mnemon {

// Safe for concurrent use. The methods are those of SessionStore.
class SnapshotFiles {
 public:
  // In `folder`, which exists, on `files`.
  SnapshotFiles(std::shared_ptr<rocksdb::FileSystem> files, std::string folder);

  absl::StatusOr<std::string> Put(std::string_view bytes);
  absl::StatusOr<std::string> Get(const std::string& name);
  void Drop(const std::string& name);
  void Count(const std::vector<std::string>& names, bool remove_others);

 private:
  std::string PathOf(const std::string& name) const { return folder_ + "/" + name; }
  absl::Status Write(const std::string& name, std::string_view bytes);

  const std::shared_ptr<rocksdb::FileSystem> files_;
  const std::string folder_;
  std::atomic<int64_t> unfinished_ = 0;
  std::mutex mutex_;  // guards what follows, and is held while a file goes
  // Of those that are being written, too.
  std::map<std::string, int64_t> counts_;
};

}  // namespace mnemon
