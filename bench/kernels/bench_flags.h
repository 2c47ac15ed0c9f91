// SPDX-License-Identifier: MIT
// The flags that all measurements share.
#pragma once

#include <memory>
#include <span>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "base/command_line.h"
#include "bench/figures/report.h"
#include "bench/kernels/bench_model.h"
#include "train/commands/compute_flags.h"

namespace mnemon {

struct BenchFlags {
  std::vector<std::string> architectures;
  std::vector<std::string> sizes;
  int64_t batch = 1;
  int64_t context = 128;
  double seconds = 2;       // of measuring, per model
  bool introspect = false;  // each step tells all that its decoder can
  bool json = false;
  // Drawn weights are of no precision until they are packed.
  ComputeFlags compute{.decoder = {.precision = "fp32"}};
};

// Adds --arch, --size, --batch, --context, --seconds, --json and the compute flags.
// `flags` must outlive `command`; `context_help` explains --context, empty: there is no
// such flag.
void AddBenchFlags(Command command, const std::string& context_help, BenchFlags& flags);

// Every size of every architecture that the flags name.
absl::StatusOr<std::vector<std::unique_ptr<BenchModel>>> MakeModels(
    const BenchFlags& flags, const Compute& compute);

// What describes one model in a result.
Record DescribeModel(const BenchModel& model, const BenchFlags& flags);

// To standard output, in the form that the flags ask for.
void PrintReport(const Report& report, std::span<const Column> columns,
                 const BenchFlags& flags);

}  // namespace mnemon
