// SPDX-License-Identifier: MIT
// The threads of a training run, which compute one update together. Small models spend
// their time between operations, not in them: splitting the batch over threads that
// each run whole operations keeps all cores busy with two barriers per update, where
// splitting every operation would need thousands.
#pragma once

#include <functional>
#include <vector>

#include "absl/status/status.h"
#include "model/compute/thread_pool.h"

namespace mnemon {

// Used by one thread, which is worker 0.
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
