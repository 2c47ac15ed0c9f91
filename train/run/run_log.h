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

// A line of samples.jsonl: one for each validation that has a sample. The same bytes
// for an interrupted and resumed run.
struct SampleRow {
  int64_t step = 0;
  std::string text;
};

inline constexpr char kMetricsName[] = "metrics.csv";
inline constexpr char kSamplesName[] = "samples.jsonl";

// The sample of a line without its line end; nullopt where it is none.
std::optional<SampleRow> ParseSampleRow(std::string_view line);

// Owned by one thread.
class RunLog {
 public:
  // Keeps the rows up to update `step`. metrics.csv of an earlier version is rewritten,
  // as CurrentMetrics. DATA_LOSS, and nothing is cut, when fewer than `metrics_bytes`
  // bytes of metrics.csv would be kept.
  static absl::StatusOr<RunLog> Open(const std::string& directory,
                                     int64_t metrics_bytes, int64_t step);

  // RESOURCE_EXHAUSTED when the disk is full; so too the next ones.
  absl::Status Append(const MetricsRow& metrics);
  // The text need not be valid UTF-8: what is not becomes U+FFFD.
  absl::Status Append(const SampleRow& sample);
  // Forces all rows to the disk, before a checkpoint counts on them.
  absl::Status Sync();
  int64_t metrics_bytes() const { return metrics_.bytes(); }

 private:
  RunLog(RowFile metrics, RowFile samples)
      : metrics_(std::move(metrics)), samples_(std::move(samples)) {}

  RowFile metrics_;
  RowFile samples_;
};

}  // namespace mnemon
