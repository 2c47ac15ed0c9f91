// SPDX-License-Identifier: MIT
// Reading of whole files, and durable writing of files and directories.
//
// Reading a file whole copies: one that is truncated or replaced meanwhile is old, new
// or an error, never a SIGBUS. Writing a directory is old or new at any crash:
// everything is written under a temporary name, fsynced, and renamed.
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

// The bytes of the regular file at `path`. Errors name the path: NOT_FOUND,
// PERMISSION_DENIED, INVALID_ARGUMENT for a link, device, FIFO or directory (links are
// not followed at the last component), OUT_OF_RANGE when larger than max_bytes,
// DATA_LOSS when the read fails or ends early.
absl::StatusOr<std::string> ReadFile(const std::string& path, int64_t max_bytes);

// A regular file held open, for contents that are not to be copied: see FileBytes. Safe
// for concurrent use.
class LargeFile {
 public:
  // Errors as of ReadFile, but `path` may be a link.
  static absl::StatusOr<LargeFile> Open(const std::string& path, int64_t max_bytes);
  ~LargeFile();
  LargeFile(LargeFile&& other) noexcept;
  LargeFile& operator=(LargeFile&&) = delete;

  const std::string& path() const { return path_; }  // for messages
  int64_t size() const { return size_; }

  int fd() const { return fd_; }  // stays this file's
  // Bytes from `begin` on, as many as `to` has room for. DATA_LOSS as of ReadThrough.
  absl::Status Read(int64_t begin, std::span<char> to) const;
  // Reads bytes begin .. end-1 and drops them: from then on the system has them in
  // memory, or the error tells why not. DATA_LOSS when the read fails or ends early.
  absl::Status ReadThrough(int64_t begin, int64_t end) const;
  // DATA_LOSS when it changed since it was opened.
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

// A directory held open: what is read through it belongs to one directory, even when
// its name is given to another one meanwhile. Safe for concurrent use.
class Directory {
 public:
  // `path` may be a link to a directory. NOT_FOUND, PERMISSION_DENIED, INVALID_ARGUMENT
  // when it is something else.
  static absl::StatusOr<Directory> Open(const std::string& path);
  ~Directory();
  Directory(Directory&& other) noexcept;
  Directory& operator=(Directory&&) = delete;

  // As ReadFile, for a file below the directory; `name` may have several components,
  // none of them "..", and no link is followed.
  absl::StatusOr<std::string> Read(const std::string& name, int64_t max_bytes) const;
  // The same file held open.
  absl::StatusOr<LargeFile> OpenLarge(const std::string& name, int64_t max_bytes) const;
  // Names directly below it.
  absl::StatusOr<std::vector<std::string>> List() const;
  // Whether the path it was opened by now leads elsewhere or nowhere.
  bool Replaced() const;

 private:
  Directory(std::string path, int fd) : path_(std::move(path)), fd_(fd) {}
  // Opens `name` below it; `shown` gets the path for messages.
  absl::StatusOr<int> OpenBelow(const std::string& name, std::string& shown) const;

  std::string path_;
  int fd_;
};

// Writes `content` to `path` through a temporary file in the same directory: fsync,
// rename, fsync of the directory. On failure the old file is intact and the temporary
// one is gone; a full disk is RESOURCE_EXHAUSTED, other failures name the call. What is
// at `path` must be a regular file or nothing. Temporary files that crashed writers
// have left in the directory are removed, here and below.
absl::Status WriteFileDurably(const std::string& path, std::string_view content);

// A file written piece by piece that appears at its path whole or not at all, in the
// way of WriteFileDurably and with its errors. One thread.
class DurableFile {
 public:
  static absl::StatusOr<DurableFile> Create(const std::string& path);
  // Nothing of what was not published remains.
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

// Creates directory `path` whole: `fill` writes files into a temporary sibling, which
// is fsynced with all its files and renamed to `path`. An existing directory at `path`
// is replaced. On failure nothing of the new one remains.
absl::Status WriteDirectoryDurably(
    const std::string& path,
    const std::function<absl::Status(const std::string& dir)>& fill);

// Makes `link` a symbolic link to `target` (relative to the link's directory),
// replacing an existing link by rename.
absl::Status ReplaceSymlink(const std::string& link, const std::string& target);

// Creates `path` and its parents.
absl::Status MakeDirectories(const std::string& path);

}  // namespace mnemon
