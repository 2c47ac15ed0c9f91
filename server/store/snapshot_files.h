// SPDX-License-Identifier: MIT
// The snapshots of a session store: one file each, named by the hash of its bytes.
// Equal snapshots share a file, whose references are counted.
#pragma once

#include <atomic>
#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"
#include "rocksdb/file_system.h"

namespace mnemon {

// Safe for concurrent use. The methods are those of SessionStore.
class SnapshotFiles {
 public:
  // `folder` exists on `files`.
  SnapshotFiles(std::shared_ptr<rocksdb::FileSystem> files, std::string folder)
      : files_(std::move(files)), folder_(std::move(folder)) {}

  absl::StatusOr<std::string> Put(std::string_view bytes);
  absl::StatusOr<std::string> Get(const std::string& name);
  void Drop(const std::string& name);
  void Count(const std::vector<std::string>& names, bool remove_others);

 private:
  std::string PathOf(const std::string& name) const { return folder_ + "/" + name; }
  void Remove(const std::string& path);

  const std::shared_ptr<rocksdb::FileSystem> files_;
  const std::string folder_;
  std::atomic<int64_t> unfinished_ = 0;
  std::mutex mutex_;  // guards counts_, and is held while a file is removed
  std::map<std::string, int64_t> counts_;  // includes files that are being written
};

}  // namespace mnemon
