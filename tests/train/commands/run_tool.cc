// SPDX-License-Identifier: MIT
#include "tests/train/commands/run_tool.h"

#include <utility>

#include "base/process/command_line.h"
#include "gtest/gtest.h"
#include "train/commands/commands.h"

namespace mnemon {

Ran RunTool(std::vector<std::string> arguments) {
  CommandLine line("mnemon-train", "Test.", {}, "version");
  AddFitCommand(line);
  AddImportCommand(line);
  AddExportCommand(line);
  AddQuantizeCommand(line);
  AddScoreCommand(line);
  AddSampleCommand(line);
  AddInspectCommand(line);
  AddEvalCommand(line);
  AddAttentionCommand(line);
  AddTokenizeCommand(line);
  AddTokenizerCommand(line);
  AddTemplateCommand(line);
  AddPlotCommand(line);
  AddReportCommand(line);
  arguments.insert(arguments.begin(), "mnemon-train");
  std::vector<char*> argv;
  for (std::string& argument : arguments) argv.push_back(argument.data());
  argv.push_back(nullptr);
  testing::internal::CaptureStdout();
  testing::internal::CaptureStderr();
  const int code = line.Run(static_cast<int>(arguments.size()), argv.data());
  std::string out = testing::internal::GetCapturedStdout();
  return {code, std::move(out), testing::internal::GetCapturedStderr()};
}

}  // namespace mnemon
