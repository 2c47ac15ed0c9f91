// SPDX-License-Identifier: MIT
#include "server/state/store_file_system.h"

#include <sys/stat.h>

#include <atomic>
#include <utility>

namespace mnemon {
namespace {

// RocksDB creates files as the umask has it. Those on a file system of a test may not
// exist here.
void MakePrivate(const std::string& path) { (void)::chmod(path.c_str(), 0600); }

}  // namespace

class StoreFileSystem::LogFile final : public rocksdb::FSWritableFileOwnerWrapper {
 public:
  LogFile(StoreFileSystem& files, uint64_t number,
          std::unique_ptr<rocksdb::FSWritableFile> file)
      : FSWritableFileOwnerWrapper(std::move(file)), files_(files), number_(number) {
    std::lock_guard lock(files_.mutex_);
    files_.logs_.insert(this);
    files_.durable_ = std::max(files_.durable_, LogPosition{number, 0});
  }
  ~LogFile() override {
    std::lock_guard lock(files_.mutex_);
    files_.logs_.erase(this);
  }

  rocksdb::IOStatus Append(const rocksdb::Slice& text,
                           const rocksdb::IOOptions& options,
                           rocksdb::IODebugContext* debug) override {
    return Count(text, FSWritableFileOwnerWrapper::Append(text, options, debug));
  }
  rocksdb::IOStatus Append(const rocksdb::Slice& text,
                           const rocksdb::IOOptions& options,
                           const rocksdb::DataVerificationInfo& verification,
                           rocksdb::IODebugContext* debug) override {
    return Count(
        text, FSWritableFileOwnerWrapper::Append(text, options, verification, debug));
  }
  rocksdb::IOStatus Sync(const rocksdb::IOOptions& options,
                         rocksdb::IODebugContext* debug) override {
    const uint64_t bytes = bytes_;
    rocksdb::IOStatus status = FSWritableFileOwnerWrapper::Sync(options, debug);
    if (status.ok()) {
      std::lock_guard lock(files_.mutex_);
      NoteDurable(bytes);
    }
    return status;
  }
  rocksdb::IOStatus Fsync(const rocksdb::IOOptions& options,
                          rocksdb::IODebugContext* debug) override {
    return Sync(options, debug);
  }

  // REQUIRES: files_.mutex_ is held.
  rocksdb::IOStatus SyncForNext(const rocksdb::IOOptions& options) {
    const uint64_t bytes = bytes_;
    if (bytes == synced_) return rocksdb::IOStatus::OK();
    rocksdb::IOStatus status = FSWritableFileOwnerWrapper::Sync(options, nullptr);
    if (status.ok()) NoteDurable(bytes);
    return status;
  }

 private:
  rocksdb::IOStatus Count(const rocksdb::Slice& text, rocksdb::IOStatus status) {
    if (status.ok()) bytes_ += text.size();
    return status;
  }
  // REQUIRES: files_.mutex_ is held.
  void NoteDurable(uint64_t bytes) {
    synced_ = std::max(synced_, bytes);
    files_.durable_ = std::max(files_.durable_, LogPosition{number_, synced_});
  }

  StoreFileSystem& files_;
  const uint64_t number_;
  std::atomic<uint64_t> bytes_ = 0;  // handed on
  uint64_t synced_ = 0;              // guarded by files_.mutex_
};

StoreFileSystem::StoreFileSystem(std::shared_ptr<rocksdb::FileSystem> base)
    : FileSystemWrapper(std::move(base)) {}

StoreFileSystem::~StoreFileSystem() = default;

LogPosition StoreFileSystem::durable() const {
  std::lock_guard lock(mutex_);
  return durable_;
}

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
  rocksdb::IOStatus status =
      FileSystemWrapper::NewWritableFile(path, options, result, debug);
  if (!status.ok()) return status;
  MakePrivate(path);
  if (number > 0) {
    *result = std::make_unique<LogFile>(*this, number, std::move(*result));
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
