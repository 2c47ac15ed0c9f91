// SPDX-License-Identifier: MIT
// The record of a run, read back from its directory: what RunLog wrote.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "train/run/metrics.h"
#include "train/run/run_log.h"

namespace mnemon {

struct RunRecord {
  std::string path;  // as given
  std::string name;  // of one run among several: its folder, or where two are the same,
                     // the path
  std::string
      folder;  // likewise, for names of files: letters, digits, "-", "_" and "."
  // Of its newest checkpoint; empty before there is one that can be read.
  // feedback_shared has a name of its own.
  std::string architecture;
  std::vector<MetricsRow> metrics;  // steps ascending
  std::vector<SampleRow> samples;   // likewise; empty where the run kept none
  double began = 0;                 // Unix time of the start, seconds; about

  // Wall time of the run at update `step`: of the last row up to it that has one, 0
  // without any.
  double SecondsAt(int64_t step) const;
  // Of all rows.
  double Seconds() const { return SecondsAt(INT64_MAX); }
};

// Reads each run. A last line that is cut off is no error: the run may be under way.
// NOT_FOUND for a path that is no run, DATA_LOSS names the file and the line that is
// damaged.
absl::StatusOr<std::vector<RunRecord>> ReadRuns(const std::vector<std::string>& paths);

}  // namespace mnemon
