// SPDX-License-Identifier: MIT
#include <signal.h>
#include <unistd.h>

#include <iostream>
#include <memory>
#include <optional>

#include "base/status_macros.h"
#include "client/chat/call_file.h"
#include "client/chat/chat.h"
#include "client/chat/line_editor.h"
#include "client/chat/line_reader.h"
#include "client/commands/commands.h"
#include "client/commands/ttl_flag.h"
#include "client/terminal/interrupts.h"
#include "client/terminal/loss_notes.h"
#include "client/terminal/sampling_flags.h"

namespace mnemon::client {
namespace {

struct ChatFlags {
  ClientOptions client;
  ChatOptions chat;
  SamplingFlags sampling;
  StoppingFlags stopping;
  ResumeFlags resume;
  std::optional<int32_t> ttl;  // seconds
};

// A session that is deleted at the end needs a ttl only in case the chat is killed or
// its connection lost.
constexpr std::chrono::hours kChatTtl{1};

absl::Status Run(ChatFlags& flags) {
  GenerateOptions& generate = flags.chat.generate;
  MNEMON_RETURN_IF_ERROR(TakeFlags(flags.sampling, generate.sampling));
  MNEMON_RETURN_IF_ERROR(TakeFlags(flags.stopping, generate.stopping));
  TakeFlags(flags.resume, generate.resume);
  TellLosses(flags.client);
  const bool kept = flags.chat.keep || !flags.chat.session.empty();
  flags.chat.ttl = TtlOfFlag(flags.ttl, kept ? kDefaultTtl : kChatTtl);
  flags.chat.named_ttl = TtlOfFlag(flags.ttl, kDefaultTtl);
  flags.chat.terminal = isatty(STDIN_FILENO) == 1 && isatty(STDOUT_FILENO) == 1;
  const bool terminal = flags.chat.terminal;
  Interrupts interrupts;
  std::unique_ptr<LineEditor> editor;
  if (terminal) editor = LineEditor::Create(interrupts.fd(), ChatHistoryFile());
  LineReader lines(STDIN_FILENO, interrupts.fd());
  const std::string state = StateFolder();
  const CallFiles calls(state.empty() ? "" : state + "/calls", flags.client.server);
  std::unique_ptr<Client> client = Client::Connect(flags.client);
  interrupts.SetAction([&] { client->CancelCalls(); });
  // On a terminal, Ctrl-C stops an answer or drops a line; elsewhere it ends the chat.
  const auto ended = [&] {
    return terminal ? interrupts.terminated() : interrupts.signal() != 0;
  };
  const ChatPorts ports{
      .read_line = [&](bool more) -> std::optional<std::string> {
        if (!terminal) return lines.Next();
        while (true) {
          interrupts.Reset();
          std::optional<std::string> line = editor->Next(more ? "... " : ">>> ");
          if (line) return line;
          std::cout << "\n" << std::flush;
          if (interrupts.signal() != SIGINT) return std::nullopt;
        }
      },
      .begin_answer =
          [&] {
            if (terminal) interrupts.Reset();
          },
      .stop_answer = [&] { return interrupts.signal() != 0; },
      .stop_chat = ended,
      .out = std::cout,
      .note = std::cerr,
      .remember = [&](const std::string& session,
                      const std::string& id) { calls.Remember(session, id); },
      .recall = [&](const std::string& session) { return calls.Recall(session); },
  };
  absl::Status status = RunChat(*client, flags.chat, ports);
  interrupts.SetAction(nullptr);
  return ended() ? EndedBySignal(interrupts.signal()) : status;
}

}  // namespace

void AddChatCommand(CommandLine& line) {
  auto flags = std::make_shared<ChatFlags>();
  Command command = line.AddCommand(
      "chat",
      "A conversation with a model in a session, in its chat template if it has one; "
      "/help inside.",
      {"mnemon chat", "mnemon chat --session anna   # continued next time",
       "printf 'Hello.\\nAnd then?\\n' | mnemon chat --max-tokens 80"},
      [flags] { return Run(*flags); });
  AddServerFlag(command, flags->client);
  AddModelFlag(command, flags->chat.model);
  command
      .Add("--session", &flags->chat.session,
           "Session to continue, or to create; it is kept")
      .Default("a new one, deleted at the end");
  command
      .Add("--system", &flags->chat.system,
           "Message of the system that begins each new session")
      .Default("no message");
  command.Add("--keep", &flags->chat.keep,
              "Keep new sessions without a name at the end");
  AddTtlFlag(command, flags->ttl, "3600, or 86400 for a session that is kept");
  AddStoppingFlags(command, flags->chat.generate.stopping, flags->stopping);
  AddSamplingFlags(command, flags->chat.generate.sampling, flags->sampling);
  AddResumeFlags(command, flags->resume);
}

}  // namespace mnemon::client
