// SPDX-License-Identifier: MIT
#include "server/store/snapshot_files.h"

#include <algorithm>

#include "absl/strings/escaping.h"
#include "base/error.h"
#include "base/out_of_memory.h"
#include "base/strings.h"
#include "server/store/store_status.h"
#include "xxhash.h"

namespace mnemon {
namespace {

constexpr size_t kNameBytes = 32;
constexpr std::string_view kUnfinished = ".tmp";

std::string NameOf(std::string_view bytes) {
  XXH128_canonical_t canonical;
  XXH128_canonicalFromHash(&canonical, XXH3_128bits(bytes.data(), bytes.size()));
  return absl::BytesToHexString(
      {reinterpret_cast<const char*>(canonical.digest), sizeof canonical.digest});
}

// Names come from records, which may be of other programs.
bool IsName(std::string_view name) {
  return name.size() == kNameBytes &&
         name.find_first_not_of("0123456789abcdef") == name.npos;
}

absl::Status NotThere() {
  return MakeError(absl::StatusCode::kNotFound, "there is no such snapshot",
                   {.reason = "SNAPSHOT_NOT_FOUND"});
}

}  // namespace

// The name of a new file is not synced: after a power failure the file may be missing,
// whole or not. The state is computed again then.
absl::StatusOr<std::string> SnapshotFiles::Put(std::string_view bytes) {
  std::string name = NameOf(bytes);
  {
    // First, so that nobody removes it meanwhile.
    std::lock_guard lock(mutex_);
    ++counts_[name];
  }
  // A file that others share and that was damaged is written again. Not under the lock,
  // since a disk may take long.
  if (Get(name).ok()) return name;
  const std::string path = PathOf(name);
  // Several may write the same one.
  const std::string unfinished =
      StrCat(path, ".", unfinished_.fetch_add(1), kUnfinished);
  rocksdb::IOStatus status = rocksdb::WriteStringToFile(files_.get(), bytes, unfinished,
                                                        /*should_sync=*/true);
  if (status.ok()) status = files_->RenameFile(unfinished, path, {}, nullptr);
  if (status.ok()) return name;
  Remove(unfinished);
  Drop(name);
  return StoreStatus(status);
}

absl::StatusOr<std::string> SnapshotFiles::Get(const std::string& name) {
  if (!IsName(name)) return NotThere();
  return CatchOutOfMemory("a snapshot", [&]() -> absl::StatusOr<std::string> {
    const std::string path = PathOf(name);
    uint64_t size = 0;
    std::unique_ptr<rocksdb::FSRandomAccessFile> file;
    rocksdb::IOStatus status = files_->GetFileSize(path, {}, &size, nullptr);
    if (status.ok()) {
      status = files_->NewRandomAccessFile(path, {}, &file, nullptr);
    }
    if (status.IsNotFound() || status.IsPathNotFound()) return NotThere();
    if (!status.ok()) return StoreStatus(status);
    std::string bytes(size, '\0');
    rocksdb::Slice read;
    status = file->Read(0, size, {}, &read, bytes.data(), nullptr);
    if (!status.ok()) return StoreStatus(status);
    if (read.data() != bytes.data()) std::copy_n(read.data(), read.size(), &bytes[0]);
    bytes.resize(read.size());
    if (NameOf(bytes) == name) return bytes;
    return MakeError(absl::StatusCode::kDataLoss, "a snapshot is damaged",
                     {.reason = "SNAPSHOT_DAMAGED"});
  });
}

void SnapshotFiles::Drop(const std::string& name) {
  std::lock_guard lock(mutex_);
  const auto found = counts_.find(name);
  if (found == counts_.end() || --found->second > 0) return;
  counts_.erase(found);
  Remove(PathOf(name));
}

void SnapshotFiles::Count(const std::vector<std::string>& names, bool remove_others) {
  std::lock_guard lock(mutex_);
  counts_.clear();
  for (const std::string& name : names) {
    if (IsName(name)) ++counts_[name];
  }
  std::vector<std::string> found;
  if (!files_->GetChildren(folder_, {}, &found, nullptr).ok()) return;
  for (const std::string& name : found) {
    if (name.ends_with(kUnfinished) ||
        (remove_others && IsName(name) && !counts_.contains(name))) {
      Remove(PathOf(name));
    }
  }
}

// A file that stays is removed by the next start.
void SnapshotFiles::Remove(const std::string& path) {
  files_->DeleteFile(path, {}, nullptr).PermitUncheckedError();
}

}  // namespace mnemon
