// SPDX-License-Identifier: MIT
// The threads that compute the updates of a training run together. Small models spend
// more time between operations than in them. The batch is therefore split over threads
// that each run whole operations, with two barriers per update; splitting every
// operation would take thousands.
#pragma once

#include <functional>
#include <vector>

#include "absl/status/status.h"
#include "model/compute/thread_pool.h"

namespace mnemon {

// Used by one thread, which also is worker 0.
class WorkerPool {
 public:
  using Work = std::function<absl::Status(int worker)>;

  // REQUIRES: size >= 1.
  explicit WorkerPool(int size);

  int size() const { return threads_.count(); }

  // Calls work(0) .. work(size() - 1), each on its own thread, and returns the first
  // error in that order. An exception becomes INTERNAL.
  absl::Status Run(const Work& work);

  // For work that does not throw.
  ThreadPool& threads() { return threads_; }

 private:
  ThreadPool threads_;
  std::vector<absl::Status> results_;  // each written by its own thread
};

}  // namespace mnemon
