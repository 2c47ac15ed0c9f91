// SPDX-License-Identifier: MIT
#include <memory>
#include <string>

#include "base/status_macros.h"
#include "bench/bench_model.h"
#include "bench/commands.h"
#include "bench/model_size.h"
#include "train/compute_flags.h"

namespace mnemon {
namespace {

struct CheckpointFlags {
  std::string architecture;
  std::string size;
  std::string out;
};

absl::Status RunCheckpoint(const CheckpointFlags& flags) {
  MNEMON_ASSIGN_OR_RETURN(const std::unique_ptr<BenchModel> model,
                          BenchModel::Make(flags.architecture, flags.size));
  return model->Write(flags.out);
}

}  // namespace

void AddCheckpointCommand(CommandLine& line) {
  auto flags = std::make_shared<CheckpointFlags>();
  Command command = line.AddCommand(
      "checkpoint", "Writes a model as the other commands measure it.",
      {"mnemon-bench checkpoint --arch causal --size S --out causal-s"}, [flags] {
        return RunComputing({}, [&](const Compute&) { return RunCheckpoint(*flags); });
      });
  command.Add("--arch", &flags->architecture, "Architecture")
      .Required()
      .OneOf({BenchArchitectures().begin(), BenchArchitectures().end()});
  command.Add("--size", &flags->size, "Size")
      .Required()
      .OneOf({BenchSizes().begin(), BenchSizes().end()});
  command.Add("--out", &flags->out, "Directory to write").Required();
}

}  // namespace mnemon
