// SPDX-License-Identifier: MIT
// Work of all threads of a pool in phases: none begins one before all have ended the
// one before. An exception ends the work, not the process.
#pragma once

#include <atomic>
#include <exception>

#include "absl/status/status.h"
#include "model/compute/thread_pool.h"

namespace mnemon {

class Phases {
 public:
  // Must outlive it.
  explicit Phases(ThreadPool& pool) : pool_(pool) {}

  // Every thread calls work(worker), which consists of calls of Do, the same ones on
  // all. RESOURCE_EXHAUSTED when memory did not suffice.
  template <class Work>
  absl::Status Run(const Work& work) {
    failed_ = false;
    struct Context {
      Phases* phases;
      const Work* work;
    } context = {this, &work};
    pool_.Run(
        [](void* given, int worker) { (*static_cast<Context*>(given)->work)(worker); },
        &context);
    return failed_ ? absl::ResourceExhaustedError("memory does not suffice for a batch")
                   : absl::OkStatus();
  }

  // A phase: phase(), then all threads meet.
  template <class Phase>
  void Do(int worker, const Phase& phase) {
    if (!failed_) {
      try {
        phase();
      } catch (const std::exception&) {  // of allocation alone
        failed_ = true;
      }
    }
    pool_.Barrier(worker);
  }

  int workers() const { return pool_.count(); }

 private:
  ThreadPool& pool_;
  std::atomic<bool> failed_ = false;
};

}  // namespace mnemon
