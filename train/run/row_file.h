// SPDX-License-Identifier: MIT
// A text file of rows that a run appends to, and that is cut back when the run goes on
// from an older checkpoint.
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
  // Keeps the rows of an existing file from its beginning up to the first one that is
  // of an update behind `step`, is cut off or is none; where nothing is kept, starts
  // one with the line `header`, or with no line where that is empty. `step_of`: the
  // update of a row without its line end, nullopt where it is none. DATA_LOSS, and
  // nothing is cut, when less than `least` bytes would be kept.
  static absl::StatusOr<RowFile> OpenUpTo(
      const std::string& path, std::string_view header, int64_t least, int64_t step,
      const std::function<std::optional<int64_t>(std::string_view row)>& step_of);
  ~RowFile();
  RowFile(RowFile&& other) noexcept;
  RowFile(const RowFile&) = delete;
  RowFile& operator=(const RowFile&) = delete;

  // `row`: without its line end. RESOURCE_EXHAUSTED when the disk is full.
  absl::Status Append(std::string_view row);
  // Forces all rows to the disk, before a checkpoint counts on them.
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
