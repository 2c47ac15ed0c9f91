// SPDX-License-Identifier: MIT
#include "base/process/command_line.h"
#include "base/process/process.h"
#include "bench/kernels/commands.h"
#include "model/sequence/runtime.h"

int main(int argc, char** argv) {
  mnemon::InitProcess();
  mnemon::CommandLine line(
      "mnemon-bench",
      "Measures models with drawn weights, and says how far from this machine's limits "
      "they are.",
      {"mnemon-bench step --arch causal --size S",
       "mnemon-bench prefill --arch feedback,transformer_xl --size XS --context 512",
       "mnemon-bench engine --arch fast_weights --size XS --batch 8 --json"},
      mnemon::VersionText("mnemon-bench",
                          "libtorch " + mnemon::TensorLibraryVersion()));
  mnemon::AddStepCommand(line);
  mnemon::AddLinearCommand(line);
  mnemon::AddPrefillCommand(line);
  mnemon::AddSamplingCommand(line);
  mnemon::AddEngineCommand(line);
  mnemon::AddRestCommand(line);
  mnemon::AddCheckpointCommand(line);
  return line.Run(argc, argv);
}
