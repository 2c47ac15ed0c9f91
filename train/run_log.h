// SPDX-License-Identifier: MIT
// The log of a run in its directory: metrics.csv, speed.csv and samples.jsonl.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "train/metrics.h"
#include "train/row_file.h"

namespace mnemon {

// A row of speed.csv: one for each row of metrics.csv. Not the same bytes for a resumed
// run.
struct SpeedRow {
  int64_t step = 0;
  double seconds = 0;            // since the start of the run, over all resumptions
  double tokens_per_second = 0;  // of the updates since the row before
};

// A line of samples.jsonl: one for each validation that has a sample. The same bytes
// for an interrupted and resumed run.
struct SampleRow {
  int64_t step = 0;
  std::string text;
};

inline constexpr char kSpeedHeader[] = "step,seconds,tokens_per_second";
inline constexpr char kMetricsName[] = "metrics.csv";
inline constexpr char kSpeedName[] = "speed.csv";
inline constexpr char kSamplesName[] = "samples.jsonl";

// The sample of a line without its line end; nullopt where it is none.
std::optional<SampleRow> ParseSampleRow(std::string_view line);

// Owned by one thread.
class RunLog {
 public:
  // Keeps `metrics_bytes` bytes of metrics.csv, as of RowFile::Open, and of the other
  // files the rows up to update `step`.
  static absl::StatusOr<RunLog> Open(const std::string& directory,
                                     int64_t metrics_bytes, int64_t step);

  // RESOURCE_EXHAUSTED when the disk is full; so too the next ones.
  absl::Status Append(const MetricsRow& metrics, const SpeedRow& speed);
  // The text need not be valid UTF-8: what is not becomes U+FFFD.
  absl::Status Append(const SampleRow& sample);
  // Forces all rows to the disk, before a checkpoint counts on them.
  absl::Status Sync();
  int64_t metrics_bytes() const { return metrics_.bytes(); }

 private:
  RunLog(RowFile metrics, RowFile speed, RowFile samples)
      : metrics_(std::move(metrics)),
        speed_(std::move(speed)),
        samples_(std::move(samples)) {}

  RowFile metrics_;
  RowFile speed_;
  RowFile samples_;
};

}  // namespace mnemon
