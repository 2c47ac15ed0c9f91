// SPDX-License-Identifier: MIT
#include <cstdio>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "base/process/standard_output.h"
#include "base/status_macros.h"
#include "base/strings.h"
#include "client/client.h"
#include "client/commands/commands.h"
#include "client/commands/session_flags.h"
#include "client/commands/session_json.h"
#include "client/commands/ttl_flag.h"
#include "client/terminal/describe_error.h"
#include "client/terminal/interrupts.h"
#include "client/terminal/session_text.h"

namespace mnemon::client {
namespace {

// Flags of all these commands; each uses those it needs.
struct SessionFlags {
  ClientOptions client;
  std::vector<std::string> ids;
  std::string session;
  std::string id;  // id of the new session
  std::string model;
  ChoiceFlags choices;
  ListSessionsOptions list;
  std::optional<int32_t> page_size;
  std::optional<uint64_t> tokens;
  std::string checkpoint;
  std::string etag;
  std::string request_id;
  bool paused = false;
  bool resumed = false;
  bool clear_sampling = false;
  bool allow_missing = false;
  bool replay = false;
  bool json = false;
};

absl::Status PrintLine(const std::string& text) {
  return WriteStandardOutput(text + "\n");
}

// Prints the id of a new session.
absl::Status PrintMade(const absl::StatusOr<Session>& session, bool json) {
  if (!session.ok()) return Described(session.status());
  return PrintLine(json ? ToJson(*session) : ForTerminal(session->id));
}

absl::Status PrintFacts(const absl::StatusOr<Session>& session, bool json) {
  if (!session.ok()) return Described(session.status());
  return json ? PrintLine(ToJson(*session))
              : WriteStandardOutput(SessionFacts(*session));
}

// `flag` applies to a single session.
absl::Status CheckOne(const std::string& flag, const std::string& value,
                      const std::vector<std::string>& ids) {
  if (value.empty() || ids.size() < 2) return absl::OkStatus();
  return UsageError(StrCat(flag, " belongs to one session: give one id"));
}

absl::Status Create(SessionFlags& flags) {
  MNEMON_RETURN_IF_ERROR(CheckOne("--request-id", flags.request_id, flags.ids));
  MNEMON_ASSIGN_OR_RETURN(const Choices choices, TakeChoices(flags.choices));
  auto client = Client::Connect(flags.client);
  if (flags.ids.empty()) flags.ids.emplace_back();
  for (const std::string& id : flags.ids) {
    MNEMON_RETURN_IF_ERROR(PrintMade(
        client->CreateSession({.id = id,
                               .model = flags.model,
                               .ttl = TtlOfFlag(flags.choices.ttl, kDefaultTtl),
                               .expire_time = choices.expire_time,
                               .durability = choices.durability,
                               .sampling = choices.sampling,
                               .paused = flags.paused,
                               .request_id = flags.request_id}),
        flags.json));
  }
  return absl::OkStatus();
}

absl::Status Get(const SessionFlags& flags) {
  auto client = Client::Connect(flags.client);
  for (const std::string& id : flags.ids) {
    if (!flags.json && &id != &flags.ids.front()) {
      MNEMON_RETURN_IF_ERROR(PrintLine(""));
    }
    MNEMON_RETURN_IF_ERROR(PrintFacts(client->GetSession(id), flags.json));
  }
  return absl::OkStatus();
}

absl::Status List(SessionFlags& flags) {
  auto client = Client::Connect(flags.client);
  SessionPage page;
  if (flags.page_size || !flags.list.page_token.empty()) {
    flags.list.page_size = flags.page_size.value_or(0);
    absl::StatusOr<SessionPage> one = client->ListSessionPage(flags.list);
    if (!one.ok()) return Described(one.status());
    page = *std::move(one);
  } else {
    auto all = client->ListSessions(flags.list.filter, flags.list.order_by);
    if (!all.ok()) return Described(all.status());
    page.sessions = *std::move(all);
  }
  if (flags.json) return PrintLine(ToJson(page));
  MNEMON_RETURN_IF_ERROR(WriteStandardOutput(SessionTable(page.sessions)));
  if (!page.next_page_token.empty()) {
    std::fprintf(stderr, "the next page: --page-token %s\n",
                 ForTerminal(page.next_page_token).c_str());
  }
  return absl::OkStatus();
}

absl::Status Update(const SessionFlags& flags) {
  MNEMON_ASSIGN_OR_RETURN(const Choices choices, TakeChoices(flags.choices));
  UpdateSessionOptions options{.id = flags.session,
                               .etag = flags.etag,
                               .fields = {},
                               .ttl = TtlOfFlag(flags.choices.ttl, std::nullopt),
                               .expire_time = choices.expire_time,
                               .durability = choices.durability,
                               .sampling = choices.sampling};
  if (flags.choices.ttl) options.fields.push_back("ttl");
  if (choices.expire_time) options.fields.push_back("expire_time");
  if (choices.durability) options.fields.push_back("durability");
  if (choices.sampling && flags.clear_sampling) {
    return UsageError("--clear-sampling takes no flag of sampling beside it");
  }
  if (choices.sampling || flags.clear_sampling) options.fields.push_back("sampling");
  if (flags.paused || flags.resumed) {
    options.paused = flags.paused;
    options.fields.push_back("paused");
  }
  if (options.fields.empty()) {
    return UsageError(
        "give what to change: --ttl, --expire-time, --durability, --pause, --resume, "
        "--clear-sampling or a flag of sampling");
  }
  return PrintFacts(Client::Connect(flags.client)->UpdateSession(options), flags.json);
}

absl::Status Fork(const SessionFlags& flags) {
  MNEMON_ASSIGN_OR_RETURN(const Choices choices, TakeChoices(flags.choices));
  ForkSessionOptions options{.parent = flags.session,
                             .id = flags.id,
                             .ttl = TtlOfFlag(flags.choices.ttl, std::nullopt),
                             .expire_time = choices.expire_time,
                             .durability = choices.durability,
                             .sampling = choices.sampling,
                             .request_id = flags.request_id};
  if (flags.tokens) options.position = static_cast<int64_t>(*flags.tokens);
  return PrintMade(Client::Connect(flags.client)->ForkSession(options), flags.json);
}

absl::Status Rewind(const SessionFlags& flags) {
  RewindSessionOptions options{
      .id = flags.session, .checkpoint = flags.checkpoint, .etag = flags.etag};
  if (flags.tokens) options.position = static_cast<int64_t>(*flags.tokens);
  if (!options.position && options.checkpoint.empty()) {
    return UsageError("give where to: --token-count N or --checkpoint-id ID");
  }
  return PrintFacts(Client::Connect(flags.client)->RewindSession(options), flags.json);
}

absl::Status Checkpoint(const SessionFlags& flags) {
  const auto checkpoint = Client::Connect(flags.client)
                              ->CheckpointSession({.id = flags.session,
                                                   .checkpoint = flags.id,
                                                   .request_id = flags.request_id});
  if (!checkpoint.ok()) return Described(checkpoint.status());
  return PrintLine(flags.json ? ToJson(*checkpoint) : ForTerminal(checkpoint->id));
}

absl::Status Verify(const SessionFlags& flags) {
  Interrupts interrupts;
  auto client = Client::Connect(flags.client);
  interrupts.SetAction([&] { client->CancelCalls(); });
  const auto verification = client->VerifySession(flags.session, flags.replay);
  interrupts.SetAction(nullptr);
  if (!verification.ok()) {
    return interrupts.signal() != 0 ? EndedBySignal(interrupts.signal())
                                    : Described(verification.status());
  }
  MNEMON_RETURN_IF_ERROR(flags.json
                             ? PrintLine(ToJson(*verification))
                             : WriteStandardOutput(VerificationFacts(*verification)));
  const std::string difference = DescribeDifference(*verification, flags.replay);
  return difference.empty() ? absl::OkStatus() : absl::DataLossError(difference);
}

absl::Status Delete(const SessionFlags& flags) {
  MNEMON_RETURN_IF_ERROR(CheckOne("--etag", flags.etag, flags.ids));
  auto client = Client::Connect(flags.client);
  for (const std::string& id : flags.ids) {
    MNEMON_RETURN_IF_ERROR(Described(client->DeleteSession(
        {.id = id, .etag = flags.etag, .allow_missing = flags.allow_missing})));
  }
  return absl::OkStatus();
}

// Adds the command with the flag --server.
Command Add(CommandLine& line, const Command& sessions, const std::string& name,
            const std::string& summary, std::vector<std::string> examples,
            absl::Status (*body)(SessionFlags&),
            const std::shared_ptr<SessionFlags>& flags) {
  Command command = line.AddCommand(
      name, summary, std::move(examples), [flags, body] { return body(*flags); },
      &sessions);
  AddServerFlag(command, flags->client);
  return command;
}

}  // namespace

void AddSessionsCommand(CommandLine& line) {
  constexpr double kMostTokens = 9e15;  // a double holds it
  Command sessions = line.AddCommand(
      "sessions", "Sessions: what they are, and what can be done with them.",
      {"mnemon sessions create anna", "mnemon sessions get anna",
       "mnemon sessions list --filter 'state = IDLE' --order-by 'last_use_time desc'",
       "mnemon sessions fork anna bert --token-count 100",
       "mnemon sessions export anna anna.session"},
      nullptr);
  auto create = std::make_shared<SessionFlags>();
  Command command = Add(
      line, sessions, "create", "Creates sessions and prints their ids.",
      {"mnemon sessions create", "mnemon sessions create anna --model small",
       "mnemon sessions create anna --ttl 604800   # a week",
       "mnemon sessions create anna --durability always --temperature 0.8"},
      [](SessionFlags& flags) { return Create(flags); }, create);
  AddModelFlag(command, create->model);
  AddTtlFlag(command, create->choices.ttl, "86400")
      .Excludes(AddChoiceFlags(command, create->choices, "the server's"));
  command.Add("--paused", &create->paused, "Set aside until update --resume");
  AddRequestIdFlag(command, create->request_id);
  AddJsonFlag(command, create->json);
  command.Add("ids", &create->ids, "Ids").Default("one, drawn by the server");

  auto get = std::make_shared<SessionFlags>();
  command = Add(
      line, sessions, "get", "Prints what is known of sessions, a fact per line.",
      {"mnemon sessions get anna", "mnemon sessions get anna --json"},
      [](SessionFlags& flags) { return Get(flags); }, get);
  AddJsonFlag(command, get->json);
  command.Add("ids", &get->ids, "Ids").Required();

  auto list = std::make_shared<SessionFlags>();
  command = Add(
      line, sessions, "list", "Lists sessions.",
      {"mnemon sessions list", "mnemon sessions list --filter 'model = models/small'",
       "mnemon sessions list --order-by 'last_use_time desc' --page-size 20",
       "mnemon sessions list --json"},
      [](SessionFlags& flags) { return List(flags); }, list);
  command
      .Add("--filter", &list->list.filter,
           "Which, in AIP-160: 'state = IDLE AND token_count > 1000'")
      .Default("all");
  command
      .Add("--order-by", &list->list.order_by,
           "Their order, in AIP-132: 'tier, name desc'")
      .Default("by name");
  command.Add("--page-size", &list->page_size, "One page of so many, at most 1000")
      .Between(1, 1000, "sessions")
      .Default("all pages");
  command
      .Add("--page-token", &list->list.page_token,
           "One page: the one that this token, printed with the page before, is for")
      .Default("the first page");
  AddJsonFlag(command, list->json);

  auto update = std::make_shared<SessionFlags>();
  command = Add(
      line, sessions, "update", "Changes a session; what is not given stays.",
      {"mnemon sessions update anna --ttl 604800",
       "mnemon sessions update anna --pause",
       "mnemon sessions update anna --resume --temperature 0.8 --top-p 0.95"},
      [](SessionFlags& flags) { return Update(flags); }, update);
  command.Add("session", &update->session, "Its id").Required();
  AddTtlFlag(command, update->choices.ttl, "unchanged")
      .Excludes(AddChoiceFlags(command, update->choices, "unchanged"));
  command.Add(
      "--clear-sampling", &update->clear_sampling,
      "Back to the server's sampling; without it, one flag of sampling replaces "
      "all of the session's");
  command.Add("--pause", &update->paused, "Set it aside: calls on it are refused")
      .Excludes(command.Add("--resume", &update->resumed, "The reverse of --pause"));
  AddEtagFlag(command, update->etag);
  AddJsonFlag(command, update->json);

  auto fork = std::make_shared<SessionFlags>();
  command = Add(
      line, sessions, "fork",
      "Makes a session with the history and memory of another one, and prints "
      "its id.",
      {"mnemon sessions fork anna", "mnemon sessions fork anna bert",
       "mnemon sessions fork anna bert --token-count 100   # as anna was then"},
      [](SessionFlags& flags) { return Fork(flags); }, fork);
  command.Add("session", &fork->session, "Id of the parent").Required();
  command.Add("id", &fork->id, "Id of the new session").Default("drawn by the server");
  command.Add("--token-count", &fork->tokens, "Tokens of the history to take over")
      .Between(0, kMostTokens, "tokens")
      .Default("all");
  AddInheritedChoiceFlags(command, fork->choices, "the parent's");
  AddRequestIdFlag(command, fork->request_id);
  AddJsonFlag(command, fork->json);

  auto rewind = std::make_shared<SessionFlags>();
  command = Add(
      line, sessions, "rewind", "Forgets the newest tokens of a session.",
      {"mnemon sessions rewind anna --token-count 100   # the first 100 are kept",
       "mnemon sessions rewind anna --checkpoint-id before-the-storm"},
      [](SessionFlags& flags) { return Rewind(flags); }, rewind);
  command.Add("session", &rewind->session, "Its id").Required();
  command.Add("--token-count", &rewind->tokens, "Tokens of the history to keep")
      .Between(0, kMostTokens, "tokens")
      .Default("none given")
      .Excludes(
          command
              .Add("--checkpoint-id", &rewind->checkpoint, "Checkpoint to go back to")
              .Default("none given"));
  AddEtagFlag(command, rewind->etag);
  AddJsonFlag(command, rewind->json);

  auto checkpoint = std::make_shared<SessionFlags>();
  command = Add(
      line, sessions, "checkpoint",
      "Keeps the present state for rewind, and prints the checkpoint's id.",
      {"mnemon sessions checkpoint anna",
       "mnemon sessions checkpoint anna before-the-storm"},
      [](SessionFlags& flags) { return Checkpoint(flags); }, checkpoint);
  command.Add("session", &checkpoint->session, "Its id").Required();
  command.Add("id", &checkpoint->id, "Id of the checkpoint")
      .Default("drawn by the server");
  AddRequestIdFlag(command, checkpoint->request_id);
  AddJsonFlag(command, checkpoint->json);

  AddSnapshotCommands(line, sessions);

  auto verify = std::make_shared<SessionFlags>();
  command = Add(
      line, sessions, "verify",
      "Checks what is stored of a session; exit code 1 when something differs.",
      {"mnemon sessions verify anna",
       "mnemon sessions verify anna --replay   # computes all of it again"},
      [](SessionFlags& flags) { return Verify(flags); }, verify);
  command.Add("session", &verify->session, "Its id").Required();
  command.Add("--replay", &verify->replay,
              "Also compute the whole history again and compare every byte");
  AddJsonFlag(command, verify->json);

  auto remove = std::make_shared<SessionFlags>();
  command = Add(
      line, sessions, "delete", "Deletes sessions; calls running on them end.",
      {"mnemon sessions delete anna bert",
       "mnemon sessions delete anna --allow-missing"},
      [](SessionFlags& flags) { return Delete(flags); }, remove);
  AddEtagFlag(command, remove->etag);
  command.Add("--allow-missing", &remove->allow_missing,
              "A missing session is not an error");
  command.Add("ids", &remove->ids, "Ids").Required();
}

}  // namespace mnemon::client
