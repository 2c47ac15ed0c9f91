// SPDX-License-Identifier: MIT
#include "tests/fakes/unsynced_file_system.h"

#include <algorithm>
#include <cerrno>
#include <filesystem>
#include <fstream>
#include <sstream>
#include <system_error>
#include <utility>

namespace mnemon {
namespace {

namespace fs = std::filesystem;
using rocksdb::FileOptions;
using rocksdb::FSWritableFile;
using rocksdb::IODebugContext;
using rocksdb::IOOptions;
using rocksdb::IOStatus;

IOStatus DiskFull() {
  return IOStatus::NoSpace("While writing", std::system_category().message(ENOSPC));
}

IOStatus FailedWith(int error) {
  return IOStatus::IOError("While writing", std::system_category().message(error));
}

// What an operation that writes or creates returns.
IOStatus WriteFault(DiskFault fault) {
  switch (fault) {
    case DiskFault::kFull:
    case DiskFault::kShortWrite:
      return DiskFull();
    case DiskFault::kQuota:
      return FailedWith(EDQUOT);
    case DiskFault::kReadOnly:
      return FailedWith(EROFS);
    case DiskFault::kNone:
    case DiskFault::kSyncFails:
      break;
  }
  return IOStatus::OK();
}

// What one that takes no room returns.
IOStatus ChangeFault(DiskFault fault) {
  return fault == DiskFault::kReadOnly ? FailedWith(EROFS) : IOStatus::OK();
}

bool IsLog(const std::string& path) { return fs::path(path).extension() == ".log"; }

std::string ReadAll(const fs::path& path) {
  std::ifstream file(path, std::ios::binary);
  std::ostringstream text;
  text << file.rdbuf();
  return text.str();
}

}  // namespace

struct UnsyncedFileSystem::Inode {
  std::string bytes;
  size_t synced = 0;
  bool lost = false;  // what comes after `synced` will never be durable
};

class UnsyncedFileSystem::File final : public rocksdb::FSWritableFileOwnerWrapper {
 public:
  File(UnsyncedFileSystem& files, std::string path, bool is_log,
       std::shared_ptr<Inode> inode, std::unique_ptr<FSWritableFile> file)
      : FSWritableFileOwnerWrapper(std::move(file)),
        files_(files),
        path_(std::move(path)),
        is_log_(is_log),
        inode_(std::move(inode)) {}

  IOStatus Append(const rocksdb::Slice& text, const IOOptions& options,
                  IODebugContext* debug) override {
    const DiskFault fault = files_.Count(path_);
    if (is_log_) {
      std::lock_guard lock(files_.mutex_);
      ++files_.log_writes_;
    }
    const IOStatus failure = WriteFault(fault);
    if (!failure.ok() && fault != DiskFault::kShortWrite) return failure;
    const rocksdb::Slice part(text.data(),
                              failure.ok() ? text.size() : text.size() / 2);
    IOStatus status = FSWritableFileOwnerWrapper::Append(part, options, debug);
    if (!status.ok()) return status;
    std::lock_guard lock(files_.mutex_);
    inode_->bytes.append(part.data(), part.size());
    return failure;
  }
  IOStatus Append(const rocksdb::Slice& text, const IOOptions& options,
                  const rocksdb::DataVerificationInfo&,
                  IODebugContext* debug) override {
    return Append(text, options, debug);
  }
  IOStatus PositionedAppend(const rocksdb::Slice&, uint64_t, const IOOptions&,
                            IODebugContext*) override {
    return IOStatus::NotSupported();
  }
  // Durable at once.
  IOStatus Truncate(uint64_t size, const IOOptions& options,
                    IODebugContext* debug) override {
    if (IOStatus failure = ChangeFault(files_.Count(path_)); !failure.ok())
      return failure;
    IOStatus status = FSWritableFileOwnerWrapper::Truncate(size, options, debug);
    std::lock_guard lock(files_.mutex_);
    if (status.ok() && size < inode_->bytes.size()) {
      inode_->bytes.resize(size);
      inode_->synced = std::min<size_t>(size, inode_->synced);
      inode_->lost = inode_->lost && inode_->synced < size;
    }
    return status;
  }
  IOStatus Sync(const IOOptions&, IODebugContext*) override {
    const DiskFault fault = files_.Count(path_);
    std::lock_guard lock(files_.mutex_);
    if (fault == DiskFault::kSyncFails) {
      inode_->lost = inode_->lost || inode_->synced < inode_->bytes.size();
      return FailedWith(EIO);
    }
    if (fault == DiskFault::kReadOnly) return FailedWith(EROFS);
    if (!inode_->lost) inode_->synced = inode_->bytes.size();
    return IOStatus::OK();
  }
  IOStatus Fsync(const IOOptions& options, IODebugContext* debug) override {
    return Sync(options, debug);
  }
  IOStatus RangeSync(uint64_t, uint64_t, const IOOptions&, IODebugContext*) override {
    return IOStatus::OK();
  }
  IOStatus Allocate(uint64_t, uint64_t, const IOOptions&, IODebugContext*) override {
    return IOStatus::OK();
  }
  void PrepareWrite(size_t, size_t, const IOOptions&, IODebugContext*) override {}

 private:
  UnsyncedFileSystem& files_;
  const std::string path_;
  const bool is_log_;
  const std::shared_ptr<Inode> inode_;
};

class UnsyncedFileSystem::Folder final : public rocksdb::FSDirectoryWrapper {
 public:
  Folder(UnsyncedFileSystem& files, std::string path,
         std::unique_ptr<rocksdb::FSDirectory> folder)
      : FSDirectoryWrapper(std::move(folder)), files_(files), path_(std::move(path)) {}

  IOStatus Fsync(const IOOptions&, IODebugContext*) override {
    const DiskFault fault = files_.Count(path_);
    if (fault == DiskFault::kSyncFails) return FailedWith(EIO);
    if (fault == DiskFault::kReadOnly) return FailedWith(EROFS);
    files_.SyncNames(path_);
    return IOStatus::OK();
  }
  IOStatus FsyncWithDirOptions(const IOOptions& options, IODebugContext* debug,
                               const rocksdb::DirFsyncOptions&) override {
    return Fsync(options, debug);
  }

 private:
  UnsyncedFileSystem& files_;
  const std::string path_;
};

UnsyncedFileSystem::UnsyncedFileSystem()
    : FileSystemWrapper(rocksdb::FileSystem::Default()) {}

UnsyncedFileSystem::~UnsyncedFileSystem() = default;

void UnsyncedFileSystem::Adopt(const std::string& directory) {
  std::lock_guard lock(mutex_);
  for (const auto& entry : fs::directory_iterator(directory)) {
    auto inode = std::make_shared<Inode>();
    inode->bytes = ReadAll(entry.path());
    inode->synced = inode->bytes.size();
    now_[entry.path()] = inode;
    durable_[entry.path()] = inode;
  }
}

void UnsyncedFileSystem::Fail(DiskFault fault, int64_t after, std::string part) {
  std::lock_guard lock(mutex_);
  fault_ = fault;
  fault_part_ = std::move(part);
  fail_from_ = operations_ + after;
}

void UnsyncedFileSystem::RefuseToOpen(std::string part) {
  std::lock_guard lock(mutex_);
  refused_part_ = std::move(part);
}

int64_t UnsyncedFileSystem::log_writes() const {
  std::lock_guard lock(mutex_);
  return log_writes_;
}

void UnsyncedFileSystem::Observe(std::function<void()> observer) {
  std::lock_guard lock(mutex_);
  observer_ = std::move(observer);
}

DiskFault UnsyncedFileSystem::Count(const std::string& path) {
  std::function<void()> observer;
  {
    std::lock_guard lock(mutex_);
    observer = observer_;
  }
  if (observer) observer();
  std::lock_guard lock(mutex_);
  const bool fails = operations_++ >= fail_from_ && path.find(fault_part_) != path.npos;
  return fails ? fault_ : DiskFault::kNone;
}

void UnsyncedFileSystem::SyncNames(const std::string& directory) {
  std::lock_guard lock(mutex_);
  const auto is_in = [&](const auto& name) {
    return fs::path(name.first).parent_path() == fs::path(directory);
  };
  std::erase_if(durable_, is_in);
  std::copy_if(now_.begin(), now_.end(), std::inserter(durable_, durable_.end()),
               is_in);
}

void UnsyncedFileSystem::CopyAfterPowerFailure(const std::string& directory,
                                               PowerFailure failure,
                                               const std::string& to) const {
  Names names;
  std::map<std::string, std::string> contents;
  {
    std::lock_guard lock(mutex_);
    names = failure == PowerFailure::kDropsAll ? durable_ : now_;
    for (const auto& [path, inode] : names) {
      if (fs::path(path).parent_path() != fs::path(directory)) continue;
      const size_t unsynced = inode->bytes.size() - inode->synced;
      std::string bytes = inode->bytes;
      if (failure == PowerFailure::kKeepsTheEnd && !inode->lost) {
        std::fill_n(bytes.begin() + static_cast<std::ptrdiff_t>(inode->synced),
                    std::min<size_t>(unsynced, 100), '\0');
      } else {
        bytes.resize(inode->synced +
                     (failure == PowerFailure::kKeepsHalf ? unsynced / 2 : 0));
      }
      contents[fs::path(path).filename()] = std::move(bytes);
    }
  }
  for (const auto& [name, bytes] : contents) {
    std::ofstream(fs::path(to) / name, std::ios::binary) << bytes;
  }
}

IOStatus UnsyncedFileSystem::NewWritableFile(const std::string& path,
                                             const FileOptions& options,
                                             std::unique_ptr<FSWritableFile>* result,
                                             IODebugContext* debug) {
  if (IOStatus failure = WriteFault(Count(path)); !failure.ok()) return failure;
  IOStatus status = target()->NewWritableFile(path, options, result, debug);
  if (!status.ok()) return status;
  auto inode = std::make_shared<Inode>();
  *result = std::make_unique<File>(*this, path, IsLog(path), inode, std::move(*result));
  std::lock_guard lock(mutex_);
  now_[path] = std::move(inode);
  return status;
}

IOStatus UnsyncedFileSystem::ReopenWritableFile(const std::string& path,
                                                const FileOptions& options,
                                                std::unique_ptr<FSWritableFile>* result,
                                                IODebugContext* debug) {
  if (IOStatus failure = ChangeFault(Count(path)); !failure.ok()) return failure;
  IOStatus status = target()->ReopenWritableFile(path, options, result, debug);
  if (!status.ok()) return status;
  std::lock_guard lock(mutex_);
  std::shared_ptr<Inode>& inode = now_[path];
  if (inode == nullptr) inode = std::make_shared<Inode>();
  *result = std::make_unique<File>(*this, path, IsLog(path), inode, std::move(*result));
  return status;
}

IOStatus UnsyncedFileSystem::NewSequentialFile(
    const std::string& path, const FileOptions& options,
    std::unique_ptr<rocksdb::FSSequentialFile>* result, IODebugContext* debug) {
  {
    std::lock_guard lock(mutex_);
    if (!refused_part_.empty() && path.find(refused_part_) != path.npos) {
      return FailedWith(EMFILE);
    }
  }
  return target()->NewSequentialFile(path, options, result, debug);
}

IOStatus UnsyncedFileSystem::NewDirectory(const std::string& path,
                                          const IOOptions& options,
                                          std::unique_ptr<rocksdb::FSDirectory>* result,
                                          IODebugContext* debug) {
  IOStatus status = target()->NewDirectory(path, options, result, debug);
  if (status.ok()) *result = std::make_unique<Folder>(*this, path, std::move(*result));
  return status;
}

IOStatus UnsyncedFileSystem::DeleteFile(const std::string& path,
                                        const IOOptions& options,
                                        IODebugContext* debug) {
  if (IOStatus failure = ChangeFault(Count(path)); !failure.ok()) return failure;
  IOStatus status = target()->DeleteFile(path, options, debug);
  std::lock_guard lock(mutex_);
  if (status.ok()) now_.erase(path);
  return status;
}

IOStatus UnsyncedFileSystem::RenameFile(const std::string& from, const std::string& to,
                                        const IOOptions& options,
                                        IODebugContext* debug) {
  if (IOStatus failure = ChangeFault(Count(to)); !failure.ok()) return failure;
  IOStatus status = target()->RenameFile(from, to, options, debug);
  std::lock_guard lock(mutex_);
  if (status.ok()) {
    now_[to] = now_[from];
    now_.erase(from);
  }
  return status;
}

}  // namespace mnemon
