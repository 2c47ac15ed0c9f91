// SPDX-License-Identifier: MIT
// Source and destination of snapshots for the commands.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>

#include "absl/status/statusor.h"
#include "base/descriptor.h"
#include "base/files/file.h"

namespace mnemon::client {

// A file that appears whole or not at all, or standard output. Used by one thread.
class SnapshotOutput {
 public:
  // `path`: "-" = standard output. Writes do not wait once `stop` is readable:
  // CANCELLED.
  static absl::StatusOr<SnapshotOutput> Open(const std::string& path, int stop);

  absl::Status Write(std::string_view part);
  // Completes the file; without this call no file appears.
  absl::Status Publish();

 private:
  SnapshotOutput(std::optional<DurableFile> file, int stop)
      : file_(std::move(file)), stop_(stop) {}

  std::optional<DurableFile> file_;  // absent: standard output
  int stop_;
};

// A regular file, or standard input. Used by one thread.
class SnapshotInput {
 public:
  // `path`: "-" = standard input; if its size is unknown, it is first copied to an
  // unnamed temporary file. `stop` as above. NOT_FOUND; INVALID_ARGUMENT if it is empty
  // or not a regular file.
  static absl::StatusOr<SnapshotInput> Open(const std::string& path, int stop);

  int64_t size() const { return size_; }
  // See SnapshotSource.
  absl::StatusOr<size_t> Read(char* to, size_t most);
  // Goes back to where reading began.
  absl::Status Rewind();

 private:
  using File = std::unique_ptr<std::FILE, int (*)(std::FILE*)>;
  SnapshotInput(std::string name, Descriptor file, File copy, int fd, int64_t size)
      : name_(std::move(name)),
        file_(std::move(file)),
        copy_(std::move(copy)),
        fd_(fd),
        size_(size) {}
  static absl::StatusOr<SnapshotInput> CopyOf(int input, std::string name, int stop);

  std::string name_;  // for messages
  Descriptor file_;   // file opened by its path
  File copy_;         // copy of standard input
  int fd_;            // descriptor that is read
  int64_t size_;
  int64_t read_ = 0;  // bytes
};

}  // namespace mnemon::client
