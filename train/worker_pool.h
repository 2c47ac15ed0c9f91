// SPDX-License-Identifier: MIT
// The threads of a training run, which compute one update together. Small models spend
// their time between operations, not in them: splitting the batch over threads that
// each run whole operations keeps all cores busy with two barriers per update, where
// splitting every operation would need thousands.
#pragma once

#include <condition_variable>
#include <cstdint>
#include <functional>
#include <mutex>
#include <thread>
#include <vector>

#include "absl/status/status.h"

namespace mnemon {

// Used by one thread, which is worker 0.
class WorkerPool {
 public:
  using Work = std::function<absl::Status(int worker)>;

  // REQUIRES: size >= 1.
  explicit WorkerPool(int size);
  ~WorkerPool();
  WorkerPool(const WorkerPool&) = delete;
  WorkerPool& operator=(const WorkerPool&) = delete;

  int size() const { return static_cast<int>(threads_.size()) + 1; }

  // Calls work(0) .. work(size() - 1), each on its own thread, and returns the first
  // error in that order. An exception becomes INTERNAL.
  absl::Status Run(const Work& work);

 private:
  void Loop(int worker);

  std::mutex mutex_;  // guards what follows
  std::condition_variable changed_;
  const Work* work_ = nullptr;
  uint64_t round_ = 0;  // of work; each worker takes part in every round
  int running_ = 0;
  bool stopping_ = false;
  std::vector<absl::Status> results_;

  std::vector<std::thread> threads_;  // constant after construction
};

}  // namespace mnemon
