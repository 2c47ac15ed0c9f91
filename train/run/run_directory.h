// SPDX-License-Identifier: MIT
// The directory of a run: checkpoints step-N, the links last and best, the log files,
// and LOCK, which the training process keeps locked.
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
  // Creates `path` if it is missing and locks it until the object is destroyed.
  // FAILED_PRECONDITION if another process trains in it, and, without `resume`, if it
  // holds anything but the lock; the message says what to do. With `resume`, removes
  // what was written after the checkpoint that `last` names; without that link the
  // newest checkpoint takes its place.
  static absl::StatusOr<RunDirectory> Open(const std::string& path, bool resume);

  const std::string& path() const { return path_; }
  std::string checkpoint_path(int64_t step) const;
  // The update of the checkpoint that `last` names; nullopt if there is none yet.
  std::optional<int64_t> last() const { return last_; }

  // Writes step-`step`, then moves `last`, then prunes. After a crash between any two
  // of these the run can be resumed.
  absl::Status Save(int64_t step, const CheckpointContent& content, int64_t best_step,
                    int64_t keep);
  // Moves `best` to best_step (0 = none yet), then removes all checkpoints but the
  // newest `keep` and the best one. Also called on resuming, as a crash may have come
  // before it.
  absl::Status Prune(int64_t best_step, int64_t keep) const;

 private:
  RunDirectory(std::string path, Descriptor lock)
      : path_(std::move(path)), lock_(std::move(lock)) {}

  std::string path_;
  Descriptor lock_;
  std::optional<int64_t> last_;
};

}  // namespace mnemon
