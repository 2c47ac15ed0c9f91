// SPDX-License-Identifier: MIT
// The commands for a session's snapshot: export and import.
#include <unistd.h>

#include <cstdio>
#include <memory>
#include <optional>
#include <string>

#include "base/process/standard_output.h"
#include "base/status_macros.h"
#include "base/strings.h"
#include "client/client.h"
#include "client/commands/commands.h"
#include "client/commands/session_flags.h"
#include "client/commands/session_json.h"
#include "client/commands/snapshot_file.h"
#include "client/commands/ttl_flag.h"
#include "client/terminal/describe_error.h"
#include "client/terminal/interrupts.h"

namespace mnemon::client {
namespace {

struct ExportFlags {
  ClientOptions client;
  std::string session;
  std::string file;
  bool json = false;
};

absl::Status Export(const ExportFlags& flags) {
  const bool standard = flags.file == "-";
  if (standard && flags.json) {
    return UsageError("--json prints to standard output: give a file for the snapshot");
  }
  if (standard && isatty(STDOUT_FILENO) == 1) {
    return UsageError("a snapshot is not text for a terminal: give a file");
  }
  Interrupts interrupts;
  MNEMON_ASSIGN_OR_RETURN(SnapshotOutput output,
                          SnapshotOutput::Open(flags.file, interrupts.fd()));
  const std::unique_ptr<Client> client = Client::Connect(flags.client);
  interrupts.SetAction([&] { client->CancelCalls(); });
  const absl::StatusOr<ExportedSession> exported =
      client->ExportSession(flags.session, [&](std::string_view part) {
        return interrupts.signal() != 0 ? absl::CancelledError("stopped")
                                        : output.Write(part);
      });
  interrupts.SetAction(nullptr);
  if (interrupts.signal() != 0) return EndedBySignal(interrupts.signal());
  if (!exported.ok()) return Described(exported.status());
  MNEMON_RETURN_IF_ERROR(output.Publish());
  if (flags.json) return WriteStandardOutput(ToJson(*exported) + "\n");
  std::fprintf(stderr, "%s\n",
               ForTerminal(StrCat("exported ", exported->session.id, ": ",
                                  exported->session.position, " tokens, ",
                                  exported->size_bytes, " bytes"))
                   .c_str());
  return absl::OkStatus();
}

struct ImportFlags {
  ClientOptions client;
  std::string file;
  std::string id;
  std::string model;
  ChoiceFlags choices;
  std::string request_id;
  bool json = false;
};

absl::Status Import(const ImportFlags& flags) {
  MNEMON_ASSIGN_OR_RETURN(Choices choices, TakeChoices(flags.choices));
  Interrupts interrupts;
  absl::StatusOr<SnapshotInput> input =
      SnapshotInput::Open(flags.file, interrupts.fd());
  if (interrupts.signal() != 0) return EndedBySignal(interrupts.signal());
  MNEMON_RETURN_IF_ERROR(input.status());
  const std::unique_ptr<Client> client = Client::Connect(flags.client);
  interrupts.SetAction([&] { client->CancelCalls(); });
  const absl::StatusOr<Session> session =
      client->ImportSession({.id = flags.id,
                             .model = flags.model,
                             .size_bytes = input->size(),
                             .ttl = TtlOfFlag(flags.choices.ttl, std::nullopt),
                             .expire_time = choices.expire_time,
                             .durability = choices.durability,
                             .sampling = choices.sampling,
                             .request_id = flags.request_id,
                             .rewind = [&] { return input->Rewind(); }},
                            [&](char* to, size_t most) -> absl::StatusOr<size_t> {
                              if (interrupts.signal() != 0)
                                return absl::CancelledError("stopped");
                              return input->Read(to, most);
                            });
  interrupts.SetAction(nullptr);
  if (session.ok()) {
    return WriteStandardOutput(
        (flags.json ? ToJson(*session) : ForTerminal(session->id)) + "\n");
  }
  return interrupts.signal() != 0 ? EndedBySignal(interrupts.signal())
                                  : Described(session.status());
}

}  // namespace

void AddSnapshotCommands(CommandLine& line, const Command& sessions) {
  auto out = std::make_shared<ExportFlags>();
  Command command = line.AddCommand(
      "export", "Writes a session to a file, whole or not at all.",
      {"mnemon sessions export anna anna.session",
       "mnemon sessions export anna - | ssh other mnemon sessions import - anna"},
      [out] { return Export(*out); }, &sessions);
  AddServerFlag(command, out->client);
  command.Add("session", &out->session, "Its id").Required();
  command
      .Add("file", &out->file,
           "File, which is replaced when there is one; - = standard "
           "output")
      .Required();
  AddJsonFlag(command, out->json);

  auto in = std::make_shared<ImportFlags>();
  command = line.AddCommand(
      "import", "Makes a session of an exported one and prints its id.",
      {"mnemon sessions import anna.session",
       "mnemon sessions import anna.session anna-again --ttl 604800",
       "mnemon sessions import - anna < anna.session"},
      [in] { return Import(*in); }, &sessions);
  AddServerFlag(command, in->client);
  command.Add("file", &in->file, "File; - = standard input").Required();
  command.Add("id", &in->id, "Id of the new session").Default("drawn by the server");
  command.Add("--model", &in->model, "Model").Default("the snapshot's");
  AddInheritedChoiceFlags(command, in->choices, "the snapshot's");
  AddRequestIdFlag(command, in->request_id);
  AddJsonFlag(command, in->json);
}

}  // namespace mnemon::client
