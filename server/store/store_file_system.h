// SPDX-License-Identifier: MIT
// The file system that the session store gives RocksDB: files are private to the user,
// and every log but the last is durable, since one is synced, with its name, before the
// next one is made.
#pragma once

#include <memory>
#include <mutex>
#include <set>
#include <string>

#include "rocksdb/file_system.h"

namespace mnemon {

// Safe for concurrent use.
class StoreFileSystem final : public rocksdb::FileSystemWrapper {
 public:
  // All files lie on `base`.
  explicit StoreFileSystem(std::shared_ptr<rocksdb::FileSystem> base);
  ~StoreFileSystem() override;

  const char* Name() const override { return "mnemon"; }
  rocksdb::IOStatus NewWritableFile(const std::string& path,
                                    const rocksdb::FileOptions& options,
                                    std::unique_ptr<rocksdb::FSWritableFile>* result,
                                    rocksdb::IODebugContext* debug) override;
  rocksdb::IOStatus LockFile(const std::string& path, const rocksdb::IOOptions& options,
                             rocksdb::FileLock** lock,
                             rocksdb::IODebugContext* debug) override;

 private:
  class LogFile;

  rocksdb::IOStatus SyncLogs(const std::string& next);

  std::mutex mutex_;         // guards what follows; held while a log is synced for a
                             // next one, so that it is not closed meanwhile
  std::set<LogFile*> logs_;  // open
};

}  // namespace mnemon
