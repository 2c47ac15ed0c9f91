// SPDX-License-Identifier: MIT
// The log of a run in its directory: metrics.csv and samples.jsonl.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "train/run/metrics.h"
#include "train/run/row_file.h"

namespace mnemon {

// A line of samples.jsonl: one for each validation that has a sample. An interrupted
// and resumed run writes the same bytes as an undisturbed one.
struct SampleRow {
  int64_t step = 0;
  std::string text;
};

inline constexpr char kMetricsName[] = "metrics.csv";
inline constexpr char kSamplesName[] = "samples.jsonl";

// Parses a line without its line end; nullopt if it is not a sample.
std::optional<SampleRow> ParseSampleRow(std::string_view line);

// Owned by one thread.
class RunLog {
 public:
  // Opens the files and keeps their rows up to update `step`. A metrics.csv of an
  // earlier version is rewritten by CurrentMetrics. DATA_LOSS if fewer than
  // `metrics_bytes` bytes of metrics.csv would be kept; it is then unchanged.
  static absl::StatusOr<RunLog> Open(const std::string& directory,
                                     int64_t metrics_bytes, int64_t step);

  // RESOURCE_EXHAUSTED if the disk is full; likewise below.
  absl::Status Append(const MetricsRow& metrics);
  // The text need not be valid UTF-8: invalid bytes become U+FFFD.
  absl::Status Append(const SampleRow& sample);
  // Forces all rows to the disk. Called before a checkpoint that relies on them.
  absl::Status Sync();
  int64_t metrics_bytes() const { return metrics_.bytes(); }

 private:
  RunLog(RowFile metrics, RowFile samples)
      : metrics_(std::move(metrics)), samples_(std::move(samples)) {}

  RowFile metrics_;
  RowFile samples_;
};

}  // namespace mnemon
