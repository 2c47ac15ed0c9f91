// SPDX-License-Identifier: MIT
#include "bench/kernels/bench_flags.h"

#include <cstdio>
#include <utility>

#include "base/status_macros.h"
#include "base/strings.h"
#include "bench/kernels/model_size.h"
#include "model/operations/cpu_operations.h"

namespace mnemon {
namespace {

std::vector<std::string> Strings(std::span<const std::string_view> names) {
  return {names.begin(), names.end()};
}

}  // namespace

void AddBenchFlags(Command command, const std::string& context_help,
                   BenchFlags& flags) {
  command
      .Add("--arch", &flags.architectures,
           "Architectures: " + StrJoin(BenchArchitectures(), ", "))
      .Required()
      .WithCommas()
      .OneOf(BenchArchitectures());
  command.Add("--size", &flags.sizes, "Sizes: " + StrJoin(BenchSizes(), ", "))
      .Required()
      .WithCommas()
      .OneOf(Strings(BenchSizes()));
  command.Add("--batch", &flags.batch, "Sessions side by side").Between(1, 4096);
  if (!context_help.empty()) {
    command.Add("--context", &flags.context, context_help).Between(1, 1 << 20);
  }
  command
      .Add("--seconds", &flags.seconds,
           "Seconds to measure each model; loading and probing come on top")
      .Between(0.01, 3600);
  command.Add("--json", &flags.json, "Print one JSON document");
  AddStepComputeFlags(command, flags.compute);
}

absl::StatusOr<std::vector<std::unique_ptr<BenchModel>>> MakeModels(
    const BenchFlags& flags, const Compute& compute) {
  std::vector<std::unique_ptr<BenchModel>> models;
  for (const std::string& size : flags.sizes) {
    for (const std::string& architecture : flags.architectures) {
      MNEMON_ASSIGN_OR_RETURN(models.emplace_back(),
                              BenchModel::Make(architecture, size, compute));
    }
  }
  return models;
}

Record DescribeModel(const BenchModel& model, const BenchFlags& flags) {
  Record record;
  record.Set("architecture", model.architecture());
  record.Set("size", model.size());
  record.Set("batch", flags.batch);
  record.Set("context", flags.context);
  record.Set("precision", flags.compute.decoder.precision);
  record.Set("decoder", model.decoder().numerics_id());
  if (flags.compute.decoder.decoder == "step") {
    record.Set("target", (*FindCpuOperations(flags.compute.decoder.target))->target);
  }
  record.Set("parameters", model.parameters());
  return record;
}

void PrintReport(const Report& report, std::span<const Column> columns,
                 const BenchFlags& flags) {
  const std::string text = flags.json ? ToJson(report) : ToTable(report, columns);
  std::fputs(text.c_str(), stdout);
}

}  // namespace mnemon
