// SPDX-License-Identifier: MIT
#include "base/process/command_line.h"
#include "base/process/process.h"
#include "client/client.h"
#include "client/commands/commands.h"

int main(int argc, char** argv) {
  mnemon::InitProcess();
  mnemon::CommandLine line(
      "mnemon", "Client of a mnemon server.",
      {"mnemon generate --prompt 'Once upon a time' --max-tokens 200", "mnemon chat",
       "mnemon score --text story.txt", "mnemon models --server 127.0.0.1:50051",
       "mnemon loadtest --concurrency 16 --seconds 30", "mnemon sessions list",
       "mnemon health --service mnemon.v1.Generation"},
      mnemon::VersionText("mnemon", mnemon::client::Client::LibraryVersion()));
  mnemon::client::AddGenerateCommand(line);
  mnemon::client::AddChatCommand(line);
  mnemon::client::AddScoreCommand(line);
  mnemon::client::AddPredictCommand(line);
  mnemon::client::AddLoadtestCommand(line);
  mnemon::client::AddModelsCommand(line);
  mnemon::client::AddSessionsCommand(line);
  mnemon::client::AddHealthCommand(line);
  mnemon::client::AddStatusCommand(line);
  mnemon::client::AddDrainCommand(line);
  line.AddRenamed("bench", "loadtest");
  line.AddRenamed("load", "status");
  return line.Run(argc, argv);
}
