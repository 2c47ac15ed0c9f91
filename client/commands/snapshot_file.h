// SPDX-License-Identifier: MIT
// Where the commands write a snapshot to and read one from.
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
#include "base/file.h"

namespace mnemon::client {

// A file that appears whole or not at all, or standard output. One thread.
class SnapshotOutput {
 public:
  // `path`: "-" = standard output. While `stop` is readable nothing is waited for:
  // CANCELLED.
  static absl::StatusOr<SnapshotOutput> Open(const std::string& path, int stop);

  absl::Status Write(std::string_view part);
  // The last call; without it no file appears.
  absl::Status Publish();

 private:
  SnapshotOutput(std::optional<DurableFile> file, int stop)
      : file_(std::move(file)), stop_(stop) {}

  std::optional<DurableFile> file_;  // absent: standard output
  int stop_;
};

// A regular file, or standard input. One thread.
class SnapshotInput {
 public:
  // `path`: "-" = standard input; where its size cannot be known it is first copied to
  // a temporary file without a name. `stop` as above. NOT_FOUND; INVALID_ARGUMENT for
  // what is empty or no regular file.
  static absl::StatusOr<SnapshotInput> Open(const std::string& path, int stop);

  int64_t size() const { return size_; }
  // As SnapshotSource.
  absl::StatusOr<size_t> Read(char* to, size_t most);
  // Back to where reading began.
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
  Descriptor file_;   // what was opened by its path
  File copy_;         // of standard input
  int fd_;            // what is read
  int64_t size_;
  int64_t read_ = 0;  // bytes
};

}  // namespace mnemon::client
