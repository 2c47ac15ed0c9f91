// SPDX-License-Identifier: MIT
#include <chrono>
#include <cstdio>
#include <memory>
#include <optional>
#include <string>

#include "base/strings.h"
#include "client/client.h"
#include "client/commands/commands.h"
#include "client/terminal/describe_error.h"
#include "client/terminal/sampling_flags.h"

namespace mnemon::client {
namespace {

void PrintLine(const char* name, const std::string& value) {
  std::printf("%-18s  %s\n", name, value.c_str());
}

absl::Status ShowStatus(const ClientOptions& options) {
  const auto load = Client::Connect(options)->GetLoad();
  if (!load.ok()) return Described(load.status());
  const auto of = [](int64_t now, int64_t most) { return StrCat(now, " of ", most); };
  PrintLine("running calls", StrCat(load->running_calls));
  PrintLine("queued calls", of(load->queued_calls, load->queue_capacity));
  PrintLine("expected wait, s",
            StrCat(std::chrono::duration<double>(load->queue_time).count()));
  PrintLine("sessions", of(load->sessions, load->session_capacity));
  PrintLine("state bytes", of(load->state_size_bytes, load->state_capacity_bytes));
  PrintLine("computed tokens", StrCat(load->computed_tokens));
  PrintLine("generated tokens", StrCat(load->generated_tokens));
  PrintLine("draining", load->draining ? "yes" : "no");
  return absl::OkStatus();
}

struct DrainFlags {
  ClientOptions client;
  std::optional<double> grace;  // seconds
};

absl::Status RunDrain(const DrainFlags& flags) {
  std::optional<std::chrono::milliseconds> grace;
  if (flags.grace) {
    grace = std::chrono::milliseconds(static_cast<int64_t>(*flags.grace * 1000));
  }
  const auto sessions = Client::Connect(flags.client)->Drain(grace);
  if (!sessions.ok()) return Described(sessions.status());
  std::printf("drained, %lld sessions saved\n", static_cast<long long>(*sessions));
  return absl::OkStatus();
}

}  // namespace

void AddStatusCommand(CommandLine& line) {
  auto options = std::make_shared<ClientOptions>();
  Command command =
      line.AddCommand("status", "Shows how busy the server is.",
                      {"mnemon status", "mnemon status --server 127.0.0.1:50051"},
                      [options] { return ShowStatus(*options); });
  AddServerFlag(command, *options);
}

void AddDrainCommand(CommandLine& line) {
  auto flags = std::make_shared<DrainFlags>();
  Command command = line.AddCommand(
      "drain",
      "Makes the server refuse new work and let running calls finish, and waits for "
      "that; the process goes on, and takes no work again.",
      {"mnemon drain", "mnemon drain --grace 10   # ends calls that take longer"},
      [flags] { return RunDrain(*flags); });
  AddServerFlag(command, flags->client);
  command.Add("--grace", &flags->grace, "Seconds that running calls have to finish")
      .Between(0, 86400, "seconds")
      .Default("the server's --grace");
}

}  // namespace mnemon::client
