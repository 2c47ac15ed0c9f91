// SPDX-License-Identifier: MIT
// A text file of rows that a run appends to. It is truncated when the run resumes from
// an older checkpoint.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <string_view>

#include "absl/status/status.h"
#include "absl/status/statusor.h"

namespace mnemon {

// Owned by one thread. Links are not followed.
class RowFile {
 public:
  // Opens the file and keeps its rows up to the first one that belongs to an update
  // after `step`, is incomplete or is not a row. If nothing is kept, the file begins
  // with the line `header`, or empty if that is empty. `step_of` returns the update of
  // a row (without its line end), or nullopt if it is not a row. DATA_LOSS if fewer
  // than `least` bytes would be kept; the file is then unchanged.
  static absl::StatusOr<RowFile> OpenUpTo(
      const std::string& path, std::string_view header, int64_t least, int64_t step,
      const std::function<std::optional<int64_t>(std::string_view row)>& step_of);
  ~RowFile();
  RowFile(RowFile&& other) noexcept;
  RowFile(const RowFile&) = delete;
  RowFile& operator=(const RowFile&) = delete;

  // `row`: without its line end. RESOURCE_EXHAUSTED when the disk is full.
  absl::Status Append(std::string_view row);
  // Forces all rows to the disk. Called before a checkpoint that relies on them.
  absl::Status Sync();
  int64_t bytes() const { return bytes_; }

 private:
  RowFile(int file, std::string path) : file_(file), path_(std::move(path)) {}
  // Keeps the first `bytes` bytes.
  static absl::StatusOr<RowFile> Open(const std::string& path, std::string_view header,
                                      int64_t bytes);

  int file_;
  std::string path_;
  int64_t bytes_ = 0;
};

}  // namespace mnemon
