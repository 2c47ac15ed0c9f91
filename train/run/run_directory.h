// SPDX-License-Identifier: MIT
// The directory of a run: checkpoints step-N, the links last and best, the files of its
// log, and LOCK, which the process that trains in it holds locked.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <utility>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "base/descriptor.h"
#include "model/io/checkpoint.h"

namespace mnemon {

class RunDirectory {
 public:
  // Creates `path` where it is missing, and locks it for as long as the object lives:
  // FAILED_PRECONDITION names the process that trains in it already. Without `resume`
  // it must be empty but for the lock: FAILED_PRECONDITION names the ways out. With it,
  // leftovers of updates behind the checkpoint that `last` names are removed; where
  // there is no such link, the newest checkpoint takes its place.
  static absl::StatusOr<RunDirectory> Open(const std::string& path, bool resume);

  const std::string& path() const { return path_; }
  std::string checkpoint_path(int64_t step) const;
  // The update of that checkpoint; nullopt when there is none yet.
  std::optional<int64_t> last() const { return last_; }

  // Writes step-`step`, then moves `last`, then prunes. A crash between any two leaves
  // a run that resumes.
  absl::Status Save(int64_t step, const CheckpointContent& content, int64_t best_step,
                    int64_t keep);
  // Moves `best` to best_step (0 = none yet), then removes all but the newest `keep`
  // and the best. Also for a run that is resumed: the crash may have come before this.
  absl::Status Prune(int64_t best_step, int64_t keep) const;

 private:
  RunDirectory(std::string path, Descriptor lock)
      : path_(std::move(path)), lock_(std::move(lock)) {}

  std::string path_;
  Descriptor lock_;
  std::optional<int64_t> last_;
};

}  // namespace mnemon
