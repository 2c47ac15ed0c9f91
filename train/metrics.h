// SPDX-License-Identifier: MIT
// metrics.csv: one row per report, the same bytes for an interrupted and resumed run.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"

namespace mnemon {

struct MetricsRow {
  int64_t step = 0;
  double loss = 0;  // mean over the updates since the row before
  std::optional<double> validation;
  std::optional<double> accuracy = {};  // of the validation
  double learning_rate = 0;
  double gradient_norm = 0;  // of the last update
};

// "step,loss,validation,learning_rate,gradient_norm,accuracy"; numbers with 9 digits,
// which is every bit of a float.
class MetricsFile {
 public:
  // Keeps the first `bytes` bytes of an existing file; with 0, or where the file is
  // missing, starts one with the header. DATA_LOSS when it is shorter.
  static absl::StatusOr<MetricsFile> Open(const std::string& path, int64_t bytes);
  ~MetricsFile();
  MetricsFile(MetricsFile&& other) noexcept;
  MetricsFile(const MetricsFile&) = delete;
  MetricsFile& operator=(const MetricsFile&) = delete;

  // RESOURCE_EXHAUSTED when the disk is full.
  absl::Status Append(const MetricsRow& row);
  // Forces all rows to the disk, before a checkpoint counts on them.
  absl::Status Sync();
  int64_t bytes() const { return bytes_; }

 private:
  MetricsFile(int file, std::string path) : file_(file), path_(std::move(path)) {}
  absl::Status Write(const std::string& text);

  int file_;
  std::string path_;
  int64_t bytes_ = 0;
};

}  // namespace mnemon
