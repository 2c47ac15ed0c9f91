// SPDX-License-Identifier: MIT
// The subcommands of mnemon-train. Each function adds one with its options; main calls
// it once.
#pragma once

#include "base/process/command_line.h"

namespace mnemon {

void AddFitCommand(CommandLine& line);
void AddImportCommand(CommandLine& line);
void AddExportCommand(CommandLine& line);
void AddQuantizeCommand(CommandLine& line);
void AddScoreCommand(CommandLine& line);
void AddSampleCommand(CommandLine& line);
void AddInspectCommand(CommandLine& line);
void AddEvalCommand(CommandLine& line);
void AddAttentionCommand(CommandLine& line);
void AddTokenizeCommand(CommandLine& line);
void AddTokenizerCommand(CommandLine& line);
void AddTemplateCommand(CommandLine& line);
void AddPlotCommand(CommandLine& line);
void AddReportCommand(CommandLine& line);

}  // namespace mnemon
