// SPDX-License-Identifier: MIT
#include "base/process/command_line.h"
#include "base/process/process.h"
#include "model/sequence/runtime.h"
#include "train/commands/commands.h"

int main(int argc, char** argv) {
  mnemon::InitProcess();
  mnemon::CommandLine line(
      "mnemon-train", "Trains, imports and examines transformers with memory.",
      {"mnemon-train fit --config train/configs/feedback-small.toml --set "
       "data.text=a.txt",
       "mnemon-train sample --checkpoint runs/feedback-small/best --prompt 'It is '",
       "mnemon-train inspect runs/feedback-small/best"},
      mnemon::VersionText("mnemon-train",
                          "libtorch " + mnemon::TensorLibraryVersion()));
  mnemon::AddFitCommand(line);
  mnemon::AddEvalCommand(line);
  mnemon::AddImportCommand(line);
  mnemon::AddExportCommand(line);
  mnemon::AddQuantizeCommand(line);
  mnemon::AddScoreCommand(line);
  mnemon::AddSampleCommand(line);
  mnemon::AddInspectCommand(line);
  mnemon::AddAttentionCommand(line);
  mnemon::AddTokenizeCommand(line);
  mnemon::AddTokenizerCommand(line);
  mnemon::AddTemplateCommand(line);
  mnemon::AddPlotCommand(line);
  mnemon::AddReportCommand(line);
  return line.Run(argc, argv);
}
