// SPDX-License-Identifier: MIT
#include <algorithm>
#include <chrono>
#include <memory>
#include <numeric>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "base/status_macros.h"
#include "bench/commands.h"
#include "bench/measurement.h"
#include "bench/spread.h"
#include "bench/vector_loops.h"
#include "model/kernels/cpu_team.h"
#include "model/kernels/packed_weights.h"
#include "model/kernels/row_buffer.h"

namespace mnemon {
namespace {

// Multiply-adds of a burst. One goes by first: processors begin them slowly. Both are
// too short for the clock to rise much.
constexpr int64_t kBurstRounds = 4000;

// All matrices of a step one after the other, each with the same number of rows. Behind
// each pass a burst of multiply-adds from registers, at the clock that the pass has
// left: processors lower it under load, and the probes before and after know nothing of
// that.
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
    Burst();
    return status;
  }
  void Describe(const Ceiling& ceiling, Record& record) const override;

  void Pass();

 private:
  void Burst();

  const int64_t rows_;
  double (*const multiply_add_)(int64_t rounds);  // as most of the matrices need it
  const std::string way_;
  PackedWeights packed_;
  std::vector<MatrixView> matrices_;
  RowBuffer in_, out_;  // as wide as the widest matrix
  CpuTeam kernels_;
  Samples passes_;
  std::vector<double> rates_;  // operations per second of each burst, all workers
  std::vector<double> parts_;  // of the last one, each by its worker
};

LinearSubject::LinearSubject(const BenchModel& model, const BenchFlags& flags,
                             const CpuOperations& operations, ThreadPool& pool)
    : rows_(flags.batch),
      multiply_add_(model.format() == WeightFormat::kInt8 ? MultiplyAddInt8
                                                          : MultiplyAdd),
      way_(model.format() == WeightFormat::kInt8 ? operations.int8 : "fma"),
      packed_(model.format()),
      kernels_(operations, pool),
      passes_(flags.seconds),
      parts_(pool.count()) {
  int64_t most_inputs = 0, most_outputs = 0;
  std::vector<float> weights;
  for (const MatrixShape& shape : Matrices(model.config(), model.format())) {
    // What is multiplied does not change how long it takes.
    weights.resize(static_cast<size_t>(shape.outputs * shape.inputs), 0.01f);
    matrices_.push_back(
        packed_.Room(shape.format, shape.outputs, shape.inputs, /*bias=*/false));
    PackedWeights::Fill(matrices_.back(), 0,
                        std::span(weights).first(static_cast<size_t>(shape.weights())));
    most_inputs = std::max(most_inputs, shape.inputs);
    most_outputs = std::max(most_outputs, shape.outputs);
  }
  in_.Resize(rows_, most_inputs);
  out_.Resize(rows_, most_outputs);
  kernels_.Reserve(LinearScratch(rows_, most_inputs));
}

void LinearSubject::Pass() {
  kernels_.Run([&](CpuWorker& k) {
    for (const MatrixView& matrix : matrices_) {
      k.Linear(
          {.rows = rows_, .in = in_.rows(), .weights = matrix, .out = out_.rows()});
      k.Sync();
    }
  });
}

void LinearSubject::Burst() {
  kernels_.RunAlone([&](CpuWorker&, int worker) {
    using Clock = std::chrono::steady_clock;
    multiply_add_(kBurstRounds);
    const Clock::time_point start = Clock::now();
    const double operations = multiply_add_(kBurstRounds);
    const std::chrono::duration<double> took = Clock::now() - start;
    parts_[worker] = operations / took.count();
  });
  rates_.push_back(std::accumulate(parts_.begin(), parts_.end(), 0.0));
}

void LinearSubject::Describe(const Ceiling& ceiling, Record& record) const {
  int64_t multiplied = 0;
  for (const MatrixView& matrix : matrices_)
    multiplied += matrix.outputs * matrix.inputs;
  const double median = SpreadOf(passes_.seconds()).median;
  const double flops = 2.0 * static_cast<double>(multiplied * rows_) / median;
  record.Set("weight_bytes", packed_.bytes());
  record.Set("passes", passes_.count());
  DescribeTimes("pass_us", passes_.seconds(), 1e-6, record);
  const bool int8 = packed_.format() == WeightFormat::kInt8;
  record.Set("multiplied_by", way_);
  record.Set("gflops", flops / 1e9);
  record.Set("fma_share",
             flops / (int8 ? ceiling.int8_per_second : ceiling.flops_per_second));
  const double meanwhile = SpreadOf(rates_).median;
  record.Set("fma_gflops_meanwhile", meanwhile / 1e9);
  record.Set("fma_share_meanwhile", flops / meanwhile);
  const double rate = static_cast<double>(packed_.bytes()) / median;
  record.Set("gbytes", rate / 1e9);
  record.Set("read_share", rate / ceiling.bytes_per_second);
}

absl::StatusOr<std::unique_ptr<Subject>> MakeSubject(const BenchModel& model,
                                                     const Compute& compute,
                                                     const BenchFlags& flags) {
  if (!compute.device.is_cpu()) {
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
                                     {"of FMA meanwhile", "fma_share_meanwhile", 4},
                                     {"GB/s", "gbytes", 1},
                                     {"of reads", "read_share", 4},
                                     {"steady", "steady"}},
                         .make = [&](const BenchModel& model, const Compute& compute) {
                           return MakeSubject(model, compute, flags);
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
