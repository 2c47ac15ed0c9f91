// SPDX-License-Identifier: MIT
// The parts that the measurements share: models take turns between two probes of the
// machine, and one report lists the figures.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "bench/figures/report.h"
#include "bench/kernels/allocation_count.h"
#include "bench/kernels/bench_flags.h"
#include "bench/kernels/bench_model.h"
#include "bench/kernels/burst.h"
#include "bench/kernels/floor.h"

namespace mnemon {

// Timed calls of one thing. One thread.
class Samples {
 public:
  // Enough when the calls took `seconds` together.
  explicit Samples(double seconds) : budget_(seconds) {}

  // Runs `call` and, unless it fails, notes how long it took, the processor time of all
  // threads, and what it allocated.
  absl::Status Time(const std::function<absl::Status()>& call);

  double spent() const { return spent_; }
  // Takes no more: enough, or a million.
  bool done() const;
  const std::vector<double>& seconds() const { return seconds_; }  // of each call
  int64_t count() const { return static_cast<int64_t>(seconds_.size()); }
  AllocationCount allocated() const { return allocated_; }  // by all calls
  double cpu_seconds() const { return cpu_seconds_; }       // of all calls

 private:
  const double budget_;
  double spent_ = 0;
  double cpu_seconds_ = 0;
  std::vector<double> seconds_;
  AllocationCount allocated_;
};

// One model under measurement.
class Subject {
 public:
  virtual ~Subject() = default;

  // Bytes that lie in the caches meanwhile: the bandwidth is probed on so many.
  virtual int64_t working_set() const = 0;
  // Has been measured enough.
  virtual bool done() const = 0;
  // Some more timed calls, one at least.
  virtual absl::Status TakeTurn() = 0;
  // Figures, with the floor under `ceiling` and the share of it beside each.
  virtual void Describe(const Ceiling& ceiling, Record& record) const = 0;
};

struct Measurement {
  std::string command;  // as typed
  std::vector<Column> columns;
  // Warmed up: what it takes is not measured. Both outlive the subject.
  std::function<absl::StatusOr<std::unique_ptr<Subject>>(const BenchModel&,
                                                         const Compute&)>
      make;
};

// Measures every model that the flags name and prints one report. Models take turns, so
// that whatever else the machine does meets all of them. The probes are of the host:
// with --device cuda there are none, and the figures have no floor.
absl::Status Measure(const BenchFlags& flags, const Measurement& measurement);

// For a Burst: the decoder's own, null where it is on another device.
ThreadPool* BurstPool(const Compute& compute);

// Sets `key`.min, .q25, .median, .q75 and .p99, in units of `unit` seconds.
void DescribeTimes(const std::string& key, const std::vector<double>& seconds,
                   double unit, Record& record);
// Sets `key`.bytes, .flop and .floor, the larger of the two.
void DescribeFloor(const std::string& key, const Floor& floor, double unit,
                   Record& record);

}  // namespace mnemon
