// SPDX-License-Identifier: MIT
#include "server/store/store_file_system.h"

#include <sys/stat.h>
#include <unistd.h>

#include <atomic>
#include <utility>

#include "server/store/write_ahead_log.h"

namespace mnemon {
namespace {

// RocksDB creates files as the umask has it. Those on a file system of a test may not
// exist here.
void MakePrivate(const std::string& path) { (void)::chmod(path.c_str(), 0600); }

// In a view of a store files are links: what is made anew takes the place of the link,
// and what that leads to stays.
void RemoveLink(const std::string& path) {
  struct stat found;
  if (::lstat(path.c_str(), &found) == 0 && S_ISLNK(found.st_mode)) {
    ::unlink(path.c_str());
  }
}

}  // namespace

class StoreFileSystem::LogFile final : public rocksdb::FSWritableFileOwnerWrapper {
 public:
  LogFile(StoreFileSystem& files, std::unique_ptr<rocksdb::FSWritableFile> file)
      : FSWritableFileOwnerWrapper(std::move(file)), files_(files) {
    std::lock_guard lock(files_.mutex_);
    files_.logs_.insert(this);
  }
  ~LogFile() override {
    std::lock_guard lock(files_.mutex_);
    files_.logs_.erase(this);
  }

  rocksdb::IOStatus Append(const rocksdb::Slice& text,
                           const rocksdb::IOOptions& options,
                           rocksdb::IODebugContext* debug) override {
    changed_ = true;
    return FSWritableFileOwnerWrapper::Append(text, options, debug);
  }
  rocksdb::IOStatus Append(const rocksdb::Slice& text,
                           const rocksdb::IOOptions& options,
                           const rocksdb::DataVerificationInfo& verification,
                           rocksdb::IODebugContext* debug) override {
    changed_ = true;
    return FSWritableFileOwnerWrapper::Append(text, options, verification, debug);
  }

  // REQUIRES: files_.mutex_ is held.
  rocksdb::IOStatus SyncForNext(const rocksdb::IOOptions& options) {
    if (!changed_.exchange(false)) return rocksdb::IOStatus::OK();
    return FSWritableFileOwnerWrapper::Sync(options, nullptr);
  }

 private:
  StoreFileSystem& files_;
  std::atomic<bool> changed_ = false;  // since it was made, or synced for a next one
};

StoreFileSystem::StoreFileSystem(std::shared_ptr<rocksdb::FileSystem> base)
    : FileSystemWrapper(std::move(base)) {}

StoreFileSystem::~StoreFileSystem() = default;

rocksdb::IOStatus StoreFileSystem::SyncLogs(const std::string& next) {
  std::lock_guard lock(mutex_);
  if (logs_.empty()) return rocksdb::IOStatus::OK();
  const rocksdb::IOOptions options;
  for (LogFile* log : logs_) {
    if (rocksdb::IOStatus status = log->SyncForNext(options); !status.ok())
      return status;
  }
  std::unique_ptr<rocksdb::FSDirectory> directory;
  rocksdb::IOStatus status = target()->NewDirectory(next.substr(0, next.rfind('/')),
                                                    options, &directory, nullptr);
  if (status.ok()) status = directory->Fsync(options, nullptr);
  return status;
}

rocksdb::IOStatus StoreFileSystem::NewWritableFile(
    const std::string& path, const rocksdb::FileOptions& options,
    std::unique_ptr<rocksdb::FSWritableFile>* result, rocksdb::IODebugContext* debug) {
  const uint64_t number = LogNumber(path.substr(path.rfind('/') + 1));
  if (number > 0) {
    if (rocksdb::IOStatus status = SyncLogs(path); !status.ok()) return status;
  }
  RemoveLink(path);
  rocksdb::IOStatus status =
      FileSystemWrapper::NewWritableFile(path, options, result, debug);
  if (!status.ok()) return status;
  MakePrivate(path);
  if (number > 0) {
    *result = std::make_unique<LogFile>(*this, std::move(*result));
  }
  return status;
}

rocksdb::IOStatus StoreFileSystem::LockFile(const std::string& path,
                                            const rocksdb::IOOptions& options,
                                            rocksdb::FileLock** lock,
                                            rocksdb::IODebugContext* debug) {
  rocksdb::IOStatus status = FileSystemWrapper::LockFile(path, options, lock, debug);
  if (status.ok()) MakePrivate(path);
  return status;
}

}  // namespace mnemon
