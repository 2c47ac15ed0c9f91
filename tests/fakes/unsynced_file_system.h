// SPDX-License-Identifier: MIT
// A file system for RocksDB on a disk that can fail and lose power. Files are real, so
// that they can be read and altered; in addition it records what a disk would have: the
// synced content of files, and the names in a directory at its last fsync.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <string>

#include "rocksdb/file_system.h"

namespace mnemon {

// What a power failure leaves of unsynced data.
enum class PowerFailure {
  kDropsAll,
  // Names as they are, and the first half of the bytes of each file.
  kKeepsHalf,
  // Names as they are, and all bytes but the first 100, which are zero: pages are
  // written back in any order.
  kKeepsTheEnd,
};

enum class DiskFault {
  kNone,
  kFull,        // ENOSPC from writing and creating
  kShortWrite,  // the same, after half of the bytes
  kQuota,       // EDQUOT from the same as kFull
  kSyncFails,   // EIO; unsynced data is lost, though it can still be read, and a
                // later fsync that succeeds does not bring it back
  kReadOnly,    // EROFS from all that would change something
};

// Safe for concurrent use. Never really syncs.
class UnsyncedFileSystem final : public rocksdb::FileSystemWrapper {
 public:
  UnsyncedFileSystem();
  ~UnsyncedFileSystem() override;

  // Files of `directory` that exist now are durable. Call it before they are used.
  void Adopt(const std::string& directory);

  // Makes operations (writes, syncs and whatever changes a directory) fail with
  // `fault`, from the `after`-th one on (0 is the next), if their path contains `part`.
  // kNone heals the disk.
  void Fail(DiskFault fault, int64_t after = 0, std::string part = "");
  // Makes opening files for reading fail if their paths contain `part`: the process has
  // no descriptors left. Empty: stops this.
  void RefuseToOpen(std::string part);
  // Called before each operation on its thread, without a lock.
  void Observe(std::function<void()> observer);
  // Writes to logs, "*.log", so far, whether they failed or not.
  int64_t log_writes() const;

  // Makes `to`, which must be empty, what `directory` would be if power failed now.
  void CopyAfterPowerFailure(const std::string& directory, PowerFailure failure,
                             const std::string& to) const;

  const char* Name() const override { return "unsynced"; }
  rocksdb::IOStatus NewWritableFile(const std::string& path,
                                    const rocksdb::FileOptions& options,
                                    std::unique_ptr<rocksdb::FSWritableFile>* result,
                                    rocksdb::IODebugContext* debug) override;
  rocksdb::IOStatus ReopenWritableFile(const std::string& path,
                                       const rocksdb::FileOptions& options,
                                       std::unique_ptr<rocksdb::FSWritableFile>* result,
                                       rocksdb::IODebugContext* debug) override;
  rocksdb::IOStatus NewSequentialFile(
      const std::string& path, const rocksdb::FileOptions& options,
      std::unique_ptr<rocksdb::FSSequentialFile>* result,
      rocksdb::IODebugContext* debug) override;
  rocksdb::IOStatus NewDirectory(const std::string& path,
                                 const rocksdb::IOOptions& options,
                                 std::unique_ptr<rocksdb::FSDirectory>* result,
                                 rocksdb::IODebugContext* debug) override;
  rocksdb::IOStatus DeleteFile(const std::string& path,
                               const rocksdb::IOOptions& options,
                               rocksdb::IODebugContext* debug) override;
  rocksdb::IOStatus RenameFile(const std::string& from, const std::string& to,
                               const rocksdb::IOOptions& options,
                               rocksdb::IODebugContext* debug) override;

 private:
  struct Inode;
  class File;
  class Folder;
  using Names = std::map<std::string, std::shared_ptr<Inode>>;  // by path

  // Counts an operation; returns the fault that it gets.
  DiskFault Count(const std::string& path);
  void SyncNames(const std::string& directory);

  mutable std::mutex mutex_;  // guards what follows
  Names now_;
  Names durable_;
  int64_t operations_ = 0;
  int64_t log_writes_ = 0;
  int64_t fail_from_ = 0;
  DiskFault fault_ = DiskFault::kNone;
  std::string fault_part_;
  std::string refused_part_;
  std::function<void()> observer_;
};

}  // namespace mnemon
