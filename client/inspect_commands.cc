// SPDX-License-Identifier: MIT
#include <array>
#include <chrono>
#include <cstdio>
#include <ctime>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "base/status_macros.h"
#include "base/strings.h"
#include "client/client.h"
#include "client/commands.h"
#include "client/describe_error.h"
#include "client/sampling_flags.h"
#include "client/ttl_flag.h"

namespace mnemon::client {
namespace {

using Row = std::vector<std::string>;

// Columns as wide as their widest cell. Text of the server is escaped for a terminal.
void PrintTable(const std::vector<Row>& rows) {
  std::vector<size_t> widths(rows.front().size(), 0);
  for (const Row& row : rows) {
    for (size_t i = 0; i < row.size(); ++i) {
      widths[i] = std::max(widths[i], row[i].size());
    }
  }
  for (const Row& row : rows) {
    std::string text;
    for (size_t i = 0; i < row.size(); ++i) {
      text += row[i];
      if (i + 1 < row.size()) text.append(widths[i] + 2 - row[i].size(), ' ');
    }
    std::printf("%s\n", ForTerminal(text).c_str());
  }
}

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
  std::vector<Row> rows = {
      {"MODEL", "ARCHITECTURE", "PARAMETERS", "CONTEXT", "MODEL ID", "NUMERICS"}};
  for (const ModelSummary& model : *models) {
    rows.push_back({model.name, model.architecture, StrCat(model.parameters),
                    model.context_limit ? StrCat(*model.context_limit) : "unlimited",
                    model.model_id.substr(0, 12), model.numerics_id});
  }
  PrintTable(rows);
  return absl::OkStatus();
}

// "2026-01-31T08:00:00Z"; "-" without a time.
std::string Utc(const std::optional<std::chrono::system_clock::time_point>& time) {
  if (!time) return "-";
  const std::time_t seconds = std::chrono::system_clock::to_time_t(*time);
  std::tm parts{};
  gmtime_r(&seconds, &parts);
  std::array<char, 64> text{};
  std::strftime(text.data(), text.size(), "%FT%TZ", &parts);
  return text.data();
}

struct SessionsFlags {
  ClientOptions client;
  std::optional<int32_t> ttl;  // seconds
  std::string model;
  std::vector<std::string> ids;
};

absl::Status ListSessions(const SessionsFlags& flags) {
  auto sessions = Client::Connect(flags.client)->ListSessions();
  if (!sessions.ok()) return Described(sessions.status());
  std::vector<Row> rows = {
      {"SESSION", "MODEL", "STATE", "TOKENS", "STATE BYTES", "EXPIRES"}};
  for (const SessionSummary& session : *sessions) {
    rows.push_back({session.id, session.model, session.state, StrCat(session.position),
                    StrCat(session.state_size_bytes), Utc(session.expire_time)});
  }
  PrintTable(rows);
  return absl::OkStatus();
}

absl::Status CreateSessions(SessionsFlags& flags) {
  auto client = Client::Connect(flags.client);
  if (flags.ids.empty()) flags.ids.emplace_back();
  for (const std::string& id : flags.ids) {
    auto session = client->CreateSession(CreateSessionOptions{
        .id = id, .model = flags.model, .ttl = TtlOfFlag(flags.ttl, kDefaultTtl)});
    if (!session.ok()) return Described(session.status());
    std::printf("%s\n", ForTerminal(session->id).c_str());
  }
  return absl::OkStatus();
}

absl::Status DeleteSessions(const SessionsFlags& flags) {
  auto client = Client::Connect(flags.client);
  for (const std::string& id : flags.ids) {
    MNEMON_RETURN_IF_ERROR(Described(client->DeleteSession(id)));
  }
  return absl::OkStatus();
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

void AddSessionsCommand(CommandLine& line) {
  Command sessions =
      line.AddCommand("sessions", "Lists, creates and deletes sessions.",
                      {"mnemon sessions list", "mnemon sessions create anna",
                       "mnemon sessions delete anna"},
                      nullptr);
  auto flags = std::make_shared<SessionsFlags>();
  Command list = line.AddCommand(
      "list", "Lists all sessions.", {"mnemon sessions list"},
      [flags] { return ListSessions(*flags); }, &sessions);
  AddServerFlag(list, flags->client);
  Command create = line.AddCommand(
      "create", "Creates sessions and prints their ids.",
      {"mnemon sessions create", "mnemon sessions create anna --model small",
       "mnemon sessions create anna --ttl 604800   # a week"},
      [flags] { return CreateSessions(*flags); }, &sessions);
  AddServerFlag(create, flags->client);
  AddModelFlag(create, flags->model);
  AddTtlFlag(create, flags->ttl, "86400");
  create.Add("ids", &flags->ids, "Ids").Default("one, drawn by the server");
  Command remove = line.AddCommand(
      "delete", "Deletes sessions; calls running on them end.",
      {"mnemon sessions delete anna bert"}, [flags] { return DeleteSessions(*flags); },
      &sessions);
  AddServerFlag(remove, flags->client);
  remove.Add("ids", &flags->ids, "Ids").Required();
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
