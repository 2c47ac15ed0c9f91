// SPDX-License-Identifier: MIT
#include <unistd.h>

#include <iostream>
#include <memory>
#include <optional>

#include "base/status_macros.h"
#include "client/chat.h"
#include "client/commands.h"
#include "client/interrupts.h"
#include "client/line_reader.h"
#include "client/sampling_flags.h"
#include "client/ttl_flag.h"

namespace mnemon::client {
namespace {

struct ChatFlags {
  ClientOptions client;
  ChatOptions chat;
  SamplingFlags sampling;
  std::optional<int32_t> ttl;  // seconds
};

// A session that is deleted at the end needs a ttl only for the case that the chat is
// killed or its connection lost.
constexpr std::chrono::hours kChatTtl{1};

absl::Status Run(ChatFlags& flags) {
  MNEMON_RETURN_IF_ERROR(TakeFlags(flags.sampling, flags.chat.generate));
  const bool kept = flags.chat.keep || !flags.chat.session.empty();
  flags.chat.ttl = TtlOfFlag(flags.ttl, kept ? kDefaultTtl : kChatTtl);
  Interrupts interrupts;
  std::unique_ptr<Client> client = Client::Connect(flags.client);
  interrupts.SetAction([&] { client->CancelStreams(); });
  LineReader lines(STDIN_FILENO, interrupts.terminated_fd());
  flags.chat.terminal = isatty(STDIN_FILENO) == 1 && isatty(STDOUT_FILENO) == 1;
  const ChatPorts ports{
      .read_line =
          [&](bool more) {
            if (flags.chat.terminal)
              std::cout << (more ? "... " : ">>> ") << std::flush;
            return lines.Next();
          },
      .begin_answer = [&] { interrupts.Reset(); },
      .stop_answer = [&] { return interrupts.interrupted(); },
      .stop_chat = [&] { return interrupts.terminated(); },
      .out = std::cout,
      .note = std::cerr,
  };
  absl::Status status = RunChat(*client, flags.chat, ports);
  interrupts.SetAction(nullptr);
  return status;
}

}  // namespace

void AddChatCommand(CommandLine& line) {
  auto flags = std::make_shared<ChatFlags>();
  Command command = line.AddCommand(
      "chat", "A conversation with a model in a session; /help inside.",
      {"mnemon chat", "mnemon chat --session anna   # continued next time",
       "printf 'Hello.\\nAnd then?\\n' | mnemon chat --max-tokens 80"},
      [flags] { return Run(*flags); });
  AddServerFlag(command, flags->client);
  command.Add("--model", &flags->chat.model,
              "Model; not needed when the server has one");
  command.Add("--session", &flags->chat.session,
              "Session to continue, or to create; it is kept");
  command.Add("--keep", &flags->chat.keep, "Keep the new session at the end");
  AddTtlFlag(command, flags->ttl, "default 3600, or 86400 for a session that is kept");
  AddSamplingFlags(command, flags->chat.generate, flags->sampling);
}

}  // namespace mnemon::client
