// SPDX-License-Identifier: MIT
#include <chrono>
#include <cstdio>
#include <memory>
#include <string>
#include <vector>

#include "base/process/standard_output.h"
#include "base/status_macros.h"
#include "base/strings.h"
#include "client/client.h"
#include "client/commands/commands.h"
#include "client/terminal/describe_error.h"
#include "client/terminal/sampling_flags.h"
#include "client/terminal/table.h"

namespace mnemon::client {
namespace {

struct ModelsFlags {
  ClientOptions client;
  bool config = false;
};

absl::Status ListModels(const ModelsFlags& flags) {
  auto models = Client::Connect(flags.client)->ListModels();
  if (!models.ok()) return Described(models.status());
  if (flags.config) {
    for (const ModelSummary& model : *models) {
      std::printf("%s\n", ForTerminal(model.config_json).c_str());
    }
    return absl::OkStatus();
  }
  std::vector<TableRow> rows = {
      {"MODEL", "ARCHITECTURE", "PARAMETERS", "CONTEXT", "MODEL ID", "NUMERICS"}};
  for (const ModelSummary& model : *models) {
    rows.push_back({model.name, model.architecture, StrCat(model.parameters),
                    model.context_limit ? StrCat(*model.context_limit) : "unlimited",
                    model.model_id.substr(0, 12), model.numerics_id});
  }
  return WriteStandardOutput(Table(rows));
}

struct HealthFlags {
  ClientOptions client;
  std::string service;
};

absl::Status CheckHealth(const HealthFlags& flags) {
  MNEMON_RETURN_IF_ERROR(
      Described(Client::Connect(flags.client)->CheckHealth(flags.service)));
  std::printf("SERVING\n");
  return absl::OkStatus();
}

}  // namespace

void AddModelsCommand(CommandLine& line) {
  auto flags = std::make_shared<ModelsFlags>();
  Command command = line.AddCommand("models", "Lists what the server has loaded.",
                                    {"mnemon models", "mnemon models --config"},
                                    [flags] { return ListModels(*flags); });
  AddServerFlag(command, flags->client);
  command.Add("--config", &flags->config, "Print each model's config.json");
}

void AddHealthCommand(CommandLine& line) {
  auto flags = std::make_shared<HealthFlags>();
  // Probes have short timeouts.
  flags->client.connect_timeout = std::chrono::milliseconds(2000);
  flags->client.call_timeout = std::chrono::milliseconds(3000);
  Command command = line.AddCommand(
      "health", "Exit code 0 when the server is SERVING, 1 when not; for probes.",
      {"mnemon health                                    # liveness",
       "mnemon health --service mnemon.v1.Generation     # it takes new work"},
      [flags] { return CheckHealth(*flags); });
  AddServerFlag(command, flags->client);
  command.Add("--service", &flags->service, "Service to check")
      .Default("liveness of the process");
}

}  // namespace mnemon::client
