// SPDX-License-Identifier: MIT
#include "bench/kernels/bracket.h"

#include <algorithm>
#include <chrono>
#include <cstdlib>
#include <utility>

#include "bench/kernels/probe.h"

namespace mnemon {
namespace {

constexpr std::chrono::milliseconds kBudget{60};

double LoadAverage() {
  double load = 0;
  return getloadavg(&load, 1) == 1 ? load : -1;
}

void DescribeRate(const std::string& key, const Bracketed& rate, Record& record) {
  record.Set(key + ".before", rate.before / 1e9);
  record.Set(key + ".after", rate.after / 1e9);
}

}  // namespace

double Bracketed::best() const { return std::max(before, after); }

bool Bracketed::steady() const { return std::min(before, after) >= 0.9 * best(); }

Bracket::Bracket(int threads, std::vector<int64_t> working_sets)
    : threads_(threads),
      working_sets_(std::move(working_sets)),
      load_average_(LoadAverage()),
      reads_(working_sets_.size()) {
  Probe(&Bracketed::before);
}

void Bracket::Close() { Probe(&Bracketed::after); }

void Bracket::Probe(double Bracketed::*when) {
  arithmetic_.*when = ProbeFma(threads_, kBudget);
  int8_.*when = ProbeInt8(threads_, kBudget);
  memory_.*when = ProbeRead(kMemoryBytes, threads_, kBudget);
  for (size_t i = 0; i < reads_.size(); ++i) {
    reads_[i].*when = ProbeRead(working_sets_[i], threads_, kBudget);
  }
}

Ceiling Bracket::ceiling(size_t index) const {
  return {.bytes_per_second = reads_[index].best(),
          .flops_per_second = arithmetic_.best(),
          .int8_per_second = int8_.best()};
}

bool Bracket::steady(size_t index) const {
  return arithmetic_.steady() && reads_[index].steady();
}

void Bracket::Describe(Record& run) const {
  run.Set("threads", int64_t{threads_});
  run.Set("load_average", load_average_);
  DescribeRate("fma_gflops", arithmetic_, run);
  DescribeRate("int8_gops", int8_, run);
  DescribeRate("memory_gbytes", memory_, run);
}

void Bracket::Describe(size_t index, Record& result) const {
  DescribeRate("read_gbytes", reads_[index], result);
  result.Set("steady", steady(index));
}

}  // namespace mnemon
