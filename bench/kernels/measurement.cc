// SPDX-License-Identifier: MIT
#include "bench/kernels/measurement.h"

#include <time.h>

#include <chrono>
#include <cstddef>
#include <limits>
#include <optional>
#include <utility>

#include "base/status_macros.h"
#include "bench/figures/spread.h"
#include "bench/kernels/bracket.h"
#include "model/compute/thread_pool.h"

namespace mnemon {
namespace {

using Time = std::chrono::steady_clock;

constexpr int64_t kMaxSamples = 1'000'000;

// The probes measure the host: floors on another device have no number.
constexpr Ceiling kUnknown = {
    .bytes_per_second = std::numeric_limits<double>::quiet_NaN(),
    .flops_per_second = std::numeric_limits<double>::quiet_NaN(),
    .int8_per_second = std::numeric_limits<double>::quiet_NaN()};

using Subjects = std::vector<std::unique_ptr<Subject>>;

absl::Status TakeTurns(const Subjects& subjects) {
  for (bool more = true; more;) {
    more = false;
    for (const std::unique_ptr<Subject>& subject : subjects) {
      if (subject->done()) continue;
      MNEMON_RETURN_IF_ERROR(subject->TakeTurn());
      more = true;
    }
  }
  return absl::OkStatus();
}

absl::Status MeasureModels(const BenchFlags& flags, const Measurement& measurement,
                           const Compute& compute) {
  MNEMON_ASSIGN_OR_RETURN(const std::vector<std::unique_ptr<BenchModel>> models,
                          MakeModels(flags, compute));
  Subjects subjects;
  std::vector<int64_t> working_sets;
  for (const std::unique_ptr<BenchModel>& model : models) {
    MNEMON_ASSIGN_OR_RETURN(subjects.emplace_back(), measurement.make(*model, compute));
    working_sets.push_back(subjects.back()->working_set());
  }
  std::optional<Bracket> bracket;
  if (compute.on_host()) {
    bracket.emplace(PoolThreads(ThreadsOf(flags.compute)), std::move(working_sets));
  }
  MNEMON_RETURN_IF_ERROR(TakeTurns(subjects));
  if (bracket) bracket->Close();
  Report report;
  report.run.Set("command", measurement.command);
  report.run.Set("seconds", flags.seconds);
  if (bracket) bracket->Describe(report.run);
  for (size_t i = 0; i < subjects.size(); ++i) {
    Record& record = report.results.emplace_back(DescribeModel(*models[i], flags));
    subjects[i]->Describe(bracket ? bracket->ceiling(i) : kUnknown, record);
    if (bracket) bracket->Describe(i, record);
  }
  PrintReport(report, measurement.columns, flags);
  return absl::OkStatus();
}

double ProcessCpuSeconds() {
  timespec time = {};
  clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &time);
  return static_cast<double>(time.tv_sec) + 1e-9 * static_cast<double>(time.tv_nsec);
}

}  // namespace

absl::Status Samples::Time(const std::function<absl::Status()>& call) {
  const AllocationCount before = CountAllocations();
  const double cpu_before = ProcessCpuSeconds();
  const Time::time_point start = Time::now();
  const absl::Status status = call();
  const std::chrono::duration<double> took = Time::now() - start;
  const double cpu = ProcessCpuSeconds() - cpu_before;
  const AllocationCount more = CountAllocations() - before;
  MNEMON_RETURN_IF_ERROR(status);
  seconds_.push_back(took.count());
  spent_ += took.count();
  cpu_seconds_ += cpu;
  allocated_.calls += more.calls;
  allocated_.bytes += more.bytes;
  return absl::OkStatus();
}

bool Samples::done() const { return spent_ >= budget_ || count() >= kMaxSamples; }

absl::Status Measure(const BenchFlags& flags, const Measurement& measurement) {
  return RunComputing(flags.compute, [&](const Compute& compute) {
    return MeasureModels(flags, measurement, compute);
  });
}

ThreadPool* BurstPool(const Compute& compute) {
  return compute.on_host() ? compute.decoder.pool : nullptr;
}

void DescribeTimes(const std::string& key, const std::vector<double>& seconds,
                   double unit, Record& record) {
  const Spread spread = SpreadOf(seconds);
  record.Set(key + ".min", spread.least / unit);
  record.Set(key + ".q25", spread.lower / unit);
  record.Set(key + ".median", spread.median / unit);
  record.Set(key + ".q75", spread.upper / unit);
  record.Set(key + ".p99", spread.p99 / unit);
  record.Set(key + ".mean", spread.mean / unit);
}

void DescribeFloor(const std::string& key, const Floor& floor, double unit,
                   Record& record) {
  record.Set(key + ".bytes", floor.bytes_seconds / unit);
  record.Set(key + ".flop", floor.flop_seconds / unit);
  record.Set(key + ".floor", floor.seconds() / unit);
}

}  // namespace mnemon
