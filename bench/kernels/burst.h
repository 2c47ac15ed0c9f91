// SPDX-License-Identifier: MIT
// Multiply-adds directly after a measured call, at the clock frequency that it leaves:
// processors lower it under load, which the probes before and after do not see.
#pragma once

#include <cstdint>
#include <vector>

#include "bench/figures/report.h"
#include "model/compute/kernels.h"
#include "model/compute/thread_pool.h"

namespace mnemon {

class Burst {
 public:
  // In int8 if most weights are, else in float32. `pool` has the threads of the
  // measured call and must outlive the burst. Null: another device is measured, nothing
  // runs, and the figures have no number.
  Burst(ThreadPool* pool, WeightFormat format);

  // Call when a timed call has ended; nobody else may use the pool.
  void Run();

  // Operations per second of all threads, the median.
  double rate() const;
  // For `operations` measured in `seconds`: sets sustained_gflops, the rate here, and
  // sustained_share, the share of it that was reached.
  void Describe(double operations, double seconds, Record& record) const;

 private:
  ThreadPool* const pool_;
  double (*const multiply_add_)(int64_t rounds);
  std::vector<double> parts_;  // of the last burst, each written by its thread
  std::vector<double> rates_;  // of each burst, over all threads
};

}  // namespace mnemon
