// SPDX-License-Identifier: MIT
// The log of a run, read back from its directory.
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
  // Distinct among the runs read together: the directory's name, or the path where two
  // have the same name.
  std::string name;
  // Likewise distinct, for file names: letters, digits, "-", "_" and ".".
  std::string folder;
  // Typed name (see TypedNames) of the newest checkpoint's architecture; empty if no
  // checkpoint can be read.
  std::string architecture;
  std::vector<MetricsRow> metrics;  // steps ascending
  std::vector<SampleRow> samples;   // likewise; empty if the run kept none
  double began = 0;                 // approximate start, Unix time in seconds

  // Wall time of the run at update `step`: that of the last row up to `step` which has
  // one; 0 if none has.
  double SecondsAt(int64_t step) const;
  // Wall time of the whole run.
  double Seconds() const { return SecondsAt(INT64_MAX); }
};

// Reads each run. An incomplete last line is not an error: the run may be under way.
// NOT_FOUND for a path that is not a run directory. DATA_LOSS names the damaged file
// and line.
absl::StatusOr<std::vector<RunRecord>> ReadRuns(const std::vector<std::string>& paths);

}  // namespace mnemon
