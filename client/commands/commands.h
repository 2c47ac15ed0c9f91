// SPDX-License-Identifier: MIT
// The subcommands of mnemon. Each function adds one with its flags; main calls it once.
#pragma once

#include "base/process/command_line.h"

namespace mnemon::client {

void AddGenerateCommand(CommandLine& line);
void AddChatCommand(CommandLine& line);
void AddScoreCommand(CommandLine& line);
void AddPredictCommand(CommandLine& line);
void AddLoadtestCommand(CommandLine& line);
void AddModelsCommand(CommandLine& line);
void AddSessionsCommand(CommandLine& line);
void AddHealthCommand(CommandLine& line);
void AddStatusCommand(CommandLine& line);
void AddDrainCommand(CommandLine& line);
// Adds export and import below the command `sessions`; called by that command.
void AddSnapshotCommands(CommandLine& line, const Command& sessions);

}  // namespace mnemon::client
