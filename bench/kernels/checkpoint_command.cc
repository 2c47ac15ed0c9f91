// SPDX-License-Identifier: MIT
#include <memory>
#include <string>
#include <vector>

#include "base/status_macros.h"
#include "base/strings.h"
#include "bench/kernels/bench_model.h"
#include "bench/kernels/commands.h"
#include "bench/kernels/model_size.h"
#include "model/families/families.h"
#include "train/commands/compute_flags.h"

namespace mnemon {
namespace {

struct CheckpointFlags {
  std::string architecture;
  std::string size;
  std::vector<std::string> set;
  std::string out;
};

absl::StatusOr<ModelConfig> ConfigOf(const CheckpointFlags& flags) {
  MNEMON_ASSIGN_OR_RETURN(ModelConfig config,
                          SizedConfig(flags.architecture, flags.size));
  for (const std::string& pair : flags.set) {
    const size_t equals = pair.find('=');
    if (equals == std::string::npos) {
      return UsageError(StrCat("--set takes KEY=VALUE, got ", pair));
    }
    MNEMON_RETURN_IF_ERROR(
        SetConfigField(config, pair.substr(0, equals), pair.substr(equals + 1)));
  }
  return config;
}

absl::Status RunCheckpoint(const CheckpointFlags& flags) {
  MNEMON_ASSIGN_OR_RETURN(const ModelConfig config, ConfigOf(flags));
  return WriteDrawnCheckpoint(config, flags.out);
}

}  // namespace

void AddCheckpointCommand(CommandLine& line) {
  auto flags = std::make_shared<CheckpointFlags>();
  Command command = line.AddCommand(
      "checkpoint", "Writes a model as the other commands measure it.",
      {"mnemon-bench checkpoint --arch causal --size S --out causal-s",
       "mnemon-bench checkpoint --arch causal --size XS --set positions=8192 --out "
       "long"},
      [flags] {
        return RunComputing({}, [&](const Compute&) { return RunCheckpoint(*flags); });
      });
  command.Add("--arch", &flags->architecture, "Architecture")
      .Required()
      .OneOf(TypedNames());
  command.Add("--size", &flags->size, "Size")
      .Required()
      .OneOf({BenchSizes().begin(), BenchSizes().end()});
  command
      .Add("--set", &flags->set,
           "Field of config.json that differs from the size's, KEY=VALUE; may be "
           "repeated")
      .Default("none");
  command.Add("--out", &flags->out, "Directory to write").Required();
}

}  // namespace mnemon
