// SPDX-License-Identifier: MIT
// The directory of a session store: who has it open, which format it has, and that
// nothing in it leads elsewhere. In it lie LOCK (the owner's process id), FORMAT and
// db/FORMAT, the two copies in db/a and db/b, the number of the last synced commit in
// db/SYNCED, and snapshots/. docs/store_format.md
#pragma once

#include <string>

#include "absl/status/statusor.h"
#include "base/files/descriptor.h"

namespace mnemon {

// Holds the locks until it is destroyed; the system drops them when the process ends,
// however that comes.
class StoreDirectory {
 public:
  static constexpr int kFormat = 2;

  // As OpenSessionStore, but for what is wrong within the copies. A store of format 1
  // gets the folders of format 2: its database is copy 0 then.
  static absl::StatusOr<StoreDirectory> Open(const std::string& path);
  // OK: at `path` is a store of the newest format; else STORE_FORMAT. Changes nothing.
  static absl::Status Find(const std::string& path);
  // The store at `path`, locked, in folders of temporary links: what is changed there
  // goes with the object, and nothing changes at `path`. STORE_FORMAT where there is
  // none, or one of format 1.
  static absl::StatusOr<StoreDirectory> View(const std::string& path);
  ~StoreDirectory();
  StoreDirectory(StoreDirectory&& other) noexcept;
  StoreDirectory& operator=(StoreDirectory&&) = delete;

  // Of copy 0 or 1.
  std::string copy(int which) const { return path_ + (which == 0 ? "/db/a" : "/db/b"); }
  // Where what is left of a copy is kept when neither was whole; there may be more of
  // them, with numbers behind their names.
  std::string damaged_copy(int which) const { return copy(which) + ".damaged"; }
  // A folder of this name takes the place of both copies at the next Open, whole or not
  // at all; the other name is for one that is not finished.
  static std::string repaired_copy(const std::string& path) {
    return path + "/db/repaired.whole";
  }
  static std::string unfinished_copy(const std::string& path) {
    return path + "/db/repaired";
  }
  std::string synced_number() const { return path_ + "/db/SYNCED"; }
  std::string snapshots() const { return path_ + "/snapshots"; }
  // 16 bytes that were drawn when the store was created.
  const std::string& id() const { return id_; }
  int format() const { return version_; }
  // Its copies may not have been made yet.
  bool created() const { return created_; }
  // Its copies are there, in the newest format.
  absl::Status Finish();

 private:
  StoreDirectory(std::string path, Descriptor lock, Descriptor folder)
      : path_(std::move(path)), lock_(std::move(lock)), folder_(std::move(folder)) {}

  std::string path_;        // of View: the temporary folder
  bool temporary_ = false;  // removed at the end
  Descriptor lock_;
  Descriptor folder_;  // the directory itself, locked too: LOCK can be removed
  std::string id_;
  int version_ = kFormat;
  bool created_ = true;
};

}  // namespace mnemon
