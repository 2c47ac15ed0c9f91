// SPDX-License-Identifier: MIT
// Multiply-adds right behind what is measured, at the clock that it leaves: processors
// lower it under load, and the probes before and after know nothing of that.
#pragma once

#include <cstdint>
#include <vector>

#include "bench/figures/report.h"
#include "model/compute/kernels.h"
#include "model/compute/thread_pool.h"

namespace mnemon {

class Burst {
 public:
  // Of int8 where most weights are, else of float32. `pool`: its threads have the cores
  // of what is measured; it must outlive the burst. Null: something else than this
  // machine is measured, nothing runs, and the figures have no number.
  Burst(ThreadPool* pool, WeightFormat format);

  // Where a timed call has ended; nobody else may use the pool.
  void Run();

  // Operations per second of all threads, the median.
  double rate() const;
  // What was measured did so many operations in `seconds`: sets sustained_gflops, the
  // rate here, and sustained_share, the share of it that was reached.
  void Describe(double operations, double seconds, Record& record) const;

 private:
  ThreadPool* const pool_;
  double (*const multiply_add_)(int64_t rounds);
  std::vector<double> parts_;  // of the last one, each by its thread
  std::vector<double> rates_;  // of each, all threads together
};

}  // namespace mnemon
