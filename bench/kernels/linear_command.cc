// SPDX-License-Identifier: MIT
#include <algorithm>
#include <memory>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "base/status_macros.h"
#include "bench/figures/spread.h"
#include "bench/kernels/burst.h"
#include "bench/kernels/commands.h"
#include "bench/kernels/measurement.h"
#include "model/compute/packed_weights.h"
#include "model/compute/row_buffer.h"
#include "model/operations/cpu_team.h"

namespace mnemon {
namespace {

// All matrices of a step in turn, each with the same number of rows.
class LinearSubject : public Subject {
 public:
  LinearSubject(const BenchModel& model, const BenchFlags& flags,
                const CpuOperations& operations, ThreadPool& pool);

  int64_t working_set() const override { return packed_.bytes(); }
  bool done() const override { return passes_.done(); }
  absl::Status TakeTurn() override {
    const absl::Status status = passes_.Time([&] {
      Pass();
      return absl::OkStatus();
    });
    burst_.Run();
    return status;
  }
  void Describe(const Ceiling& ceiling, Record& record) const override;

  void Pass();

 private:
  const int64_t rows_;
  const std::string way_;
  PackedWeights packed_;
  std::vector<MatrixView> matrices_;
  RowBuffer in_, out_;  // as wide as the widest matrix
  CpuTeam team_;
  Samples passes_;
  Burst burst_;
};

LinearSubject::LinearSubject(const BenchModel& model, const BenchFlags& flags,
                             const CpuOperations& operations, ThreadPool& pool)
    : rows_(flags.batch),
      way_(model.format() == WeightFormat::kInt8 ? operations.int8 : "fma"),
      packed_(model.format()),
      team_(operations, pool),
      passes_(flags.seconds),
      burst_(&pool, model.format()) {
  int64_t most_inputs = 0, most_outputs = 0;
  std::vector<float> weights;
  for (const MatrixShape& shape : Matrices(model.description(), model.format())) {
    // The values do not affect the time.
    weights.resize(static_cast<size_t>(shape.outputs * shape.inputs), 0.01f);
    matrices_.push_back(packed_.Room(shape.format, shape.outputs, shape.inputs,
                                     /*bias=*/false, shape.slice));
    PackedWeights::Fill(matrices_.back(), 0,
                        std::span(weights).first(static_cast<size_t>(shape.weights())));
    most_inputs = std::max(most_inputs, shape.inputs);
    most_outputs = std::max(most_outputs, shape.outputs);
  }
  in_.Resize(rows_, most_inputs);
  out_.Resize(rows_, most_outputs);
  team_.Reserve(LinearScratch(rows_, most_inputs));
}

void LinearSubject::Pass() {
  team_.Run([&](CpuWorker& k) {
    for (const MatrixView& matrix : matrices_) {
      k.Linear(
          {.rows = rows_, .in = in_.rows(), .weights = matrix, .out = out_.rows()});
      k.Sync();
    }
  });
}

void LinearSubject::Describe(const Ceiling& ceiling, Record& record) const {
  int64_t multiplied = 0;
  for (const MatrixView& matrix : matrices_)
    multiplied += matrix.outputs * matrix.inputs;
  const double median = SpreadOf(passes_.seconds()).median;
  const double operations = 2.0 * static_cast<double>(multiplied * rows_);
  const double flops = operations / median;
  record.Set("weight_bytes", packed_.bytes());
  record.Set("passes", passes_.count());
  DescribeTimes("pass_us", passes_.seconds(), 1e-6, record);
  const bool int8 = packed_.format() == WeightFormat::kInt8;
  record.Set("multiplied_by", way_);
  record.Set("gflops", flops / 1e9);
  record.Set("fma_share",
             flops / (int8 ? ceiling.int8_per_second : ceiling.flops_per_second));
  burst_.Describe(operations, median, record);
  const double rate = static_cast<double>(packed_.bytes()) / median;
  record.Set("gbytes", rate / 1e9);
  record.Set("read_share", rate / ceiling.bytes_per_second);
}

absl::StatusOr<std::unique_ptr<Subject>> MakeLinearSubject(const BenchModel& model,
                                                           const Compute& compute,
                                                           const BenchFlags& flags) {
  if (!compute.on_host()) {
    return UsageError("--device " + flags.compute.device +
                      ": the matrices of a step are measured on the CPU only");
  }
  MNEMON_ASSIGN_OR_RETURN(const CpuOperations* operations,
                          FindCpuOperations(compute.decoder.target));
  auto subject =
      std::make_unique<LinearSubject>(model, flags, *operations, *compute.decoder.pool);
  subject->Pass();  // warms up
  return subject;
}

absl::Status RunLinear(const BenchFlags& flags) {
  return Measure(flags, {.command = "linear",
                         .columns = {{"architecture", "architecture"},
                                     {"size", "size"},
                                     {"rows", "batch"},
                                     {"by", "multiplied_by"},
                                     {"us", "pass_us.median", 1},
                                     {"q25", "pass_us.q25", 1},
                                     {"q75", "pass_us.q75", 1},
                                     {"GFLOP/s", "gflops", 1},
                                     {"of FMA", "fma_share", 4},
                                     {"of sustained", "sustained_share", 4},
                                     {"GB/s", "gbytes", 1},
                                     {"of reads", "read_share", 4},
                                     {"steady", "steady"}},
                         .make = [&](const BenchModel& model, const Compute& compute) {
                           return MakeLinearSubject(model, compute, flags);
                         }});
}

}  // namespace

void AddLinearCommand(CommandLine& line) {
  auto flags = std::make_shared<BenchFlags>();
  Command command = line.AddCommand(
      "linear", "The matrices of a step alone, with a row for each of some sessions.",
      {"mnemon-bench linear --arch causal --size S,M --batch 16",
       "mnemon-bench linear --arch fast_weights --size XS --precision bf16 --json"},
      [flags] { return RunLinear(*flags); });
  flags->context = 0;
  AddBenchFlags(command, /*context_help=*/"", *flags);
}

}  // namespace mnemon
