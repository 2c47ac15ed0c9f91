// SPDX-License-Identifier: MIT
// The directory of a session store: who has it open, which format it has, and that no
// link in it leads elsewhere. It holds LOCK (the owner's process id), FORMAT and
// db/FORMAT, the two copies db/a and db/b, db/SYNCED, and snapshots/.
// docs/store_format.md
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <utility>

#include "absl/status/statusor.h"
#include "base/descriptor.h"

namespace mnemon {

// Holds the locks until it is destroyed; the system drops them when the process ends,
// however it ends.
class StoreDirectory {
 public:
  static constexpr int kFormat = 2;

  // As OpenSessionStore, except for what is wrong within the copies. A store of format
  // 1 gets the folders of format 2, and its database becomes copy 0.
  static absl::StatusOr<StoreDirectory> Open(const std::string& path);
  // OK: `path` has a store of the newest format; else STORE_FORMAT. Changes nothing.
  static absl::Status Find(const std::string& path);
  // The store at `path`, locked, as a temporary folder of links, which is removed with
  // the object. Nothing changes at `path`. Errors of Find.
  static absl::StatusOr<StoreDirectory> View(const std::string& path);

  // The folder of copy 0 or 1. Files that are set aside go to the same path with
  // ".damaged", and a number if that is taken.
  std::string copy(int which) const { return path_ + (which == 0 ? "/db/a" : "/db/b"); }
  // A folder of this name replaces both copies at the next Open, whole or not at all;
  // the other name is for one that is not complete.
  static std::string repaired_copy(const std::string& path) {
    return path + "/db/repaired.whole";
  }
  static std::string unfinished_copy(const std::string& path) {
    return path + "/db/repaired";
  }
  std::string synced_number() const { return path_ + "/db/SYNCED"; }
  std::string snapshots() const { return path_ + "/snapshots"; }
  // 16 random bytes, drawn when the store was created.
  const std::string& id() const { return format_.id; }
  int format() const { return format_.version; }
  // False: its copies may not have been made yet.
  bool created() const { return format_.created; }
  // Notes that its copies have been made, in the newest format.
  absl::Status Finish();

  // What FORMAT says.
  struct Format {
    int version = kFormat;
    std::string id;
    bool created = true;
  };

 private:
  StoreDirectory(std::string path, Descriptor lock, Descriptor folder)
      : path_(std::move(path)), lock_(std::move(lock)), folder_(std::move(folder)) {}

  std::string path_;  // of View: the temporary folder
  // For View: removes the folder when it is destroyed; owns nothing else.
  std::shared_ptr<void> temporary_;
  Descriptor lock_;
  Descriptor folder_;  // the directory itself, locked too: LOCK can be removed
  Format format_;
};

// A file with the number of the last commit that both copies are known to have synced,
// which a start must find. Written without a sync, after the commit: a power failure
// may leave it too low, and never too high. One thread at a time.
class SyncedNumber {
 public:
  // `path` need not exist.
  explicit SyncedNumber(std::string path) : path_(std::move(path)) {}

  // 0: nothing is known.
  uint64_t Read() const;
  // On failure the file has the number before, or none.
  void Write(uint64_t number);

 private:
  const std::string path_;
  Descriptor file_;  // open from the first Write on
};

}  // namespace mnemon
