// SPDX-License-Identifier: MIT
// Flags shared by all measurements.
#pragma once

#include <memory>
#include <span>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "base/process/command_line.h"
#include "bench/figures/report.h"
#include "bench/kernels/bench_model.h"
#include "train/commands/compute_flags.h"

namespace mnemon {

struct BenchFlags {
  std::vector<std::string> architectures;
  std::vector<std::string> sizes;
  int64_t batch = 1;
  int64_t context = 128;
  double seconds = 2;       // of measurement, per model
  bool introspect = false;  // each step reports all that its decoder can
  bool json = false;
  // Drawn weights have no precision until they are packed.
  ComputeFlags compute{.decoder = {.precision = "fp32"}};
};

// Adds --arch, --size, --batch, --context, --seconds, --json and the compute flags.
// `flags` must outlive `command`. `context_help` explains --context; if empty, there is
// no such flag.
void AddBenchFlags(Command command, const std::string& context_help, BenchFlags& flags);

// Every size of every architecture named by the flags.
absl::StatusOr<std::vector<std::unique_ptr<BenchModel>>> MakeModels(
    const BenchFlags& flags, const Compute& compute);

// Description of one model in a result.
Record DescribeModel(const BenchModel& model, const BenchFlags& flags);

// Prints to standard output in the form selected by the flags.
void PrintReport(const Report& report, std::span<const Column> columns,
                 const BenchFlags& flags);

}  // namespace mnemon
