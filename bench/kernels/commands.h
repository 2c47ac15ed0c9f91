// SPDX-License-Identifier: MIT
// The subcommands of mnemon-bench.
#pragma once

#include "base/process/command_line.h"

namespace mnemon {

void AddStepCommand(CommandLine& line);
void AddLinearCommand(CommandLine& line);
void AddPrefillCommand(CommandLine& line);
void AddSamplingCommand(CommandLine& line);
void AddEngineCommand(CommandLine& line);
void AddRestCommand(CommandLine& line);
void AddCheckpointCommand(CommandLine& line);

}  // namespace mnemon
