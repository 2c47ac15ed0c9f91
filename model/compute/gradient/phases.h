// SPDX-License-Identifier: MIT
// Work of all threads of a pool in phases: a phase begins when all threads have ended
// the one before. An exception ends the work, not the process.
#pragma once

#include <atomic>
#include <exception>

#include "absl/status/status.h"
#include "model/compute/thread_pool.h"

namespace mnemon {

class Phases {
 public:
  // The pool must outlive it.
  explicit Phases(ThreadPool& pool) : pool_(pool) {}

  // Every thread calls work(worker), which consists of calls of Do, the same on all
  // threads. RESOURCE_EXHAUSTED without memory.
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

  // Runs phase(), then waits for all threads.
  template <class Phase>
  void Do(int worker, const Phase& phase) {
    if (!failed_) {
      try {
        phase();
      } catch (const std::exception&) {  // only from allocation
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
