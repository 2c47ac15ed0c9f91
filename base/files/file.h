// SPDX-License-Identifier: MIT
// Reading of whole files, and durable writing of files and directories.
//
// Reading a whole file copies it: if it is truncated or replaced meanwhile, the result
// is old, new or an error, never a SIGBUS. After a crash, a written directory is old or
// new: everything is written under a temporary name, fsynced, and renamed.
#pragma once

#include <cstdint>
#include <ctime>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"

namespace mnemon {

// Content of the regular file at `path`. Errors name the path: NOT_FOUND,
// PERMISSION_DENIED, INVALID_ARGUMENT for a link, device, FIFO or directory (links are
// not followed at the last component), OUT_OF_RANGE if larger than max_bytes, DATA_LOSS
// if the read fails or ends early.
absl::StatusOr<std::string> ReadFile(const std::string& path, int64_t max_bytes);

// An open regular file whose contents are not to be copied: see FileBytes. Safe for
// concurrent use.
class LargeFile {
 public:
  // Errors of ReadFile, but `path` may be a link.
  static absl::StatusOr<LargeFile> Open(const std::string& path, int64_t max_bytes);
  ~LargeFile();
  LargeFile(LargeFile&& other) noexcept;
  LargeFile& operator=(LargeFile&&) = delete;

  const std::string& path() const { return path_; }  // for messages
  int64_t size() const { return size_; }

  int fd() const { return fd_; }  // owned by this file
  // Reads bytes from `begin` on, as many as `to` has room for. DATA_LOSS as for
  // ReadThrough.
  absl::Status Read(int64_t begin, std::span<char> to) const;
  // Reads and drops bytes begin .. end-1: afterwards the system has them in memory, or
  // the error says why not. DATA_LOSS if the read fails or ends early.
  absl::Status ReadThrough(int64_t begin, int64_t end) const;
  // DATA_LOSS if it changed since it was opened.
  absl::Status CheckUnchanged() const;

 private:
  friend class Directory;
  LargeFile(std::string path, int fd, int64_t size, const timespec& modified)
      : path_(std::move(path)), fd_(fd), size_(size), modified_(modified) {}

  std::string path_;
  int fd_;
  int64_t size_;
  timespec modified_;
};

// An open directory: everything read through it belongs to one directory, even if its
// name is given to another meanwhile. Safe for concurrent use.
class Directory {
 public:
  // `path` may be a link to a directory. NOT_FOUND, PERMISSION_DENIED, or
  // INVALID_ARGUMENT for other files.
  static absl::StatusOr<Directory> Open(const std::string& path);
  ~Directory();
  Directory(Directory&& other) noexcept;
  Directory& operator=(Directory&&) = delete;

  // Like ReadFile, for a file below the directory; `name` may have several components,
  // none of them "..", and no link is followed.
  absl::StatusOr<std::string> Read(const std::string& name, int64_t max_bytes) const;
  // The same file held open.
  absl::StatusOr<LargeFile> OpenLarge(const std::string& name, int64_t max_bytes) const;
  // Names directly below it.
  absl::StatusOr<std::vector<std::string>> List() const;
  // Whether the path used to open it now leads elsewhere or nowhere.
  bool Replaced() const;

 private:
  Directory(std::string path, int fd) : path_(std::move(path)), fd_(fd) {}
  // Opens `name` below it; sets `shown` to the path for messages.
  absl::StatusOr<int> OpenBelow(const std::string& name, std::string& shown) const;

  std::string path_;
  int fd_;
};

// Writes `content` to `path` through a temporary file in the same directory: fsync,
// rename, fsync of the directory. On failure the old file is intact and the temporary
// one is gone; a full disk is RESOURCE_EXHAUSTED, other failures name the call. `path`
// must be a regular file or not exist. Temporary files of crashed writers in the
// directory are removed, here and below.
absl::Status WriteFileDurably(const std::string& path, std::string_view content);

// A file written piece by piece that appears at its path whole or not at all, like
// WriteFileDurably and with its errors. Used by one thread.
class DurableFile {
 public:
  static absl::StatusOr<DurableFile> Create(const std::string& path);
  // Removes what was not published.
  ~DurableFile();
  DurableFile(DurableFile&&) noexcept;
  DurableFile& operator=(DurableFile&&) = delete;

  absl::Status Write(std::string_view piece);
  // The last call.
  absl::Status Publish();

 private:
  struct Impl;
  explicit DurableFile(std::unique_ptr<Impl> impl);
  std::unique_ptr<Impl> impl_;
};

// Creates directory `path` atomically: `fill` writes files into a temporary sibling,
// which is fsynced with all its files and renamed to `path`. Replaces an existing
// directory. On failure nothing of the new one remains.
absl::Status WriteDirectoryDurably(
    const std::string& path,
    const std::function<absl::Status(const std::string& dir)>& fill);

// Makes `link` a symbolic link to `target` (relative to the link's directory),
// replacing an existing link by rename.
absl::Status ReplaceSymlink(const std::string& link, const std::string& target);

// Creates `path` and its parents.
absl::Status MakeDirectories(const std::string& path);

}  // namespace mnemon
