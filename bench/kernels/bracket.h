// SPDX-License-Identifier: MIT
// Probes around a measurement: rates that the machine reached before and after it.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "bench/figures/report.h"
#include "bench/kernels/floor.h"

namespace mnemon {

// Rates per second.
struct Bracketed {
  double before = 0;
  double after = 0;

  double best() const;
  // Whether the two differ by at most a tenth: then figures between them can be
  // trusted.
  bool steady() const;
};

class Bracket {
 public:
  // Probes at once, with `threads` threads: arithmetic, int8 arithmetic, reads from
  // memory, and reads from each buffer of `working_sets` bytes.
  Bracket(int threads, std::vector<int64_t> working_sets);
  // Probes again. The functions below require this call.
  void Close();

  // The best rates, for the working set of this index.
  Ceiling ceiling(size_t index) const;
  // Whether arithmetic and the reads of this index changed by at most a tenth.
  bool steady(size_t index) const;

  // Rates of the whole run: threads, load average before the first probe, arithmetic,
  // int8 arithmetic, reads from memory.
  void Describe(Record& run) const;
  // Rates of the working set of this index.
  void Describe(size_t index, Record& result) const;

 private:
  void Probe(double Bracketed::*when);

  const int threads_;
  const std::vector<int64_t> working_sets_;
  const double load_average_;
  Bracketed arithmetic_;
  Bracketed int8_;
  Bracketed memory_;
  std::vector<Bracketed> reads_;
};

}  // namespace mnemon
