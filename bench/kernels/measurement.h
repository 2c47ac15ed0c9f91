// SPDX-License-Identifier: MIT
// Common parts of measurements: models take turns between two probes of the machine,
// and one report lists the figures.
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

// Timed calls of one operation. Used by one thread.
class Samples {
 public:
  // Done when the calls took `seconds` in total.
  explicit Samples(double seconds) : budget_(seconds) {}

  // Runs `call` and, unless it fails, records its time, the processor time of all
  // threads, and its allocations.
  absl::Status Time(const std::function<absl::Status()>& call);

  double spent() const { return spent_; }
  // Whether there are enough samples, or a million.
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

  // Bytes in the caches during the measurement: the size for probing the bandwidth.
  virtual int64_t working_set() const = 0;
  // Whether it has been measured enough.
  virtual bool done() const = 0;
  // Makes some more timed calls, at least one.
  virtual absl::Status TakeTurn() = 0;
  // Sets the figures, each with the floor under `ceiling` and its share.
  virtual void Describe(const Ceiling& ceiling, Record& record) const = 0;
};

struct Measurement {
  std::string command;  // as typed
  std::vector<Column> columns;
  // Makes the warmed-up subject; its own time is not measured. Both must outlive the
  // subject.
  std::function<absl::StatusOr<std::unique_ptr<Subject>>(const BenchModel&,
                                                         const Compute&)>
      make;
};

// Measures every model named by the flags and prints one report. Models take turns, so
// that other load on the machine affects all of them. The probes measure the host: with
// --device cuda there are none, and the figures have no floor.
absl::Status Measure(const BenchFlags& flags, const Measurement& measurement);

// Pool for a Burst: the decoder's own, null if it is on another device.
ThreadPool* BurstPool(const Compute& compute);

// Sets `key`.min, .q25, .median, .q75 and .p99, in units of `unit` seconds.
void DescribeTimes(const std::string& key, const std::vector<double>& seconds,
                   double unit, Record& record);
// Sets `key`.bytes, .flop and .floor, the larger of the two.
void DescribeFloor(const std::string& key, const Floor& floor, double unit,
                   Record& record);

}  // namespace mnemon
