// SPDX-License-Identifier: MIT
#include "client/chat/chat_sessions.h"

#include <algorithm>

#include "absl/strings/numbers.h"
#include "base/quote.h"
#include "base/status_macros.h"
#include "base/strings.h"
#include "client/terminal/describe_error.h"
#include "client/terminal/sampling_flags.h"
#include "client/terminal/session_text.h"

namespace mnemon::client {
namespace {

absl::StatusOr<Session> RewindTo(Client& client, const RewindSessionOptions& options) {
  absl::StatusOr<Session> session = client.RewindSession(options);
  if (!session.ok()) return Described(session.status());
  return session;
}

// The number is relative to the session that was read: its etag rejects any other.
absl::StatusOr<Session> RewindBy(Client& client, const std::string& id, int64_t count) {
  const absl::StatusOr<Session> now = client.GetSession(id);
  if (!now.ok()) return Described(now.status());
  if (count > now->position) {
    return absl::OutOfRangeError(
        StrCat("the session has only ", now->position, " tokens, not ", count));
  }
  return RewindTo(client,
                  {.id = id, .position = now->position - count, .etag = now->etag});
}

}  // namespace

absl::StatusOr<std::string> OneWord(std::string_view rest, std::string_view use,
                                    bool optional) {
  constexpr std::string_view kSpace = " \t\r";
  rest.remove_prefix(std::min(rest.find_first_not_of(kSpace), rest.size()));
  rest = rest.substr(0, rest.find_last_not_of(kSpace) + 1);
  const bool one = rest.find_first_of(kSpace) == rest.npos;
  if (one && (optional || !rest.empty())) return std::string(rest);
  return absl::InvalidArgumentError(StrCat("use ", use));
}

absl::StatusOr<Session> ChatRewind(Client& client, const std::string& session,
                                   std::string_view rest) {
  MNEMON_ASSIGN_OR_RETURN(
      const std::string target,
      OneWord(rest, "/rewind N, /rewind -N or /rewind CHECKPOINT", false));
  const bool back = target.front() == '-';
  const std::string digits = target.substr(back ? 1 : 0);
  if (digits.empty() || digits.find_first_not_of("0123456789") != digits.npos) {
    return RewindTo(client, {.id = session, .checkpoint = target});
  }
  int64_t count = 0;
  if (!absl::SimpleAtoi(digits, &count)) {
    return absl::OutOfRangeError(StrCat(Quoted(digits), " is not a number of tokens"));
  }
  return back ? RewindBy(client, session, count)
              : RewindTo(client, {.id = session, .position = count});
}

absl::StatusOr<Session> ChatLoad(Client& client, const std::string& session,
                                 std::string_view rest) {
  MNEMON_ASSIGN_OR_RETURN(std::string checkpoint,
                          OneWord(rest, "/load CHECKPOINT", false));
  return RewindTo(client, {.id = session, .checkpoint = std::move(checkpoint)});
}

absl::StatusOr<std::string> ChatSave(Client& client, const std::string& session,
                                     std::string_view rest) {
  MNEMON_ASSIGN_OR_RETURN(std::string id, OneWord(rest, "/save [CHECKPOINT]", true));
  const absl::StatusOr<SessionCheckpoint> saved =
      client.CheckpointSession({.id = session, .checkpoint = std::move(id)});
  if (!saved.ok()) return Described(saved.status());
  return ForTerminal(StrCat("saved ", saved->id, " at ", saved->position, " tokens\n"));
}

absl::Status ChatVerify(Client& client, const std::string& session,
                        std::string_view rest, std::string& facts) {
  constexpr char kUse[] = "/verify [replay]";
  MNEMON_ASSIGN_OR_RETURN(const std::string word, OneWord(rest, kUse, true));
  if (!word.empty() && word != "replay") {
    return absl::InvalidArgumentError(StrCat("use ", kUse));
  }
  const absl::StatusOr<Verification> verification =
      client.VerifySession(session, !word.empty());
  if (!verification.ok()) return Described(verification.status());
  facts = VerificationFacts(*verification);
  const std::string difference = DescribeDifference(*verification, !word.empty());
  return difference.empty() ? absl::OkStatus() : absl::DataLossError(difference);
}

absl::StatusOr<std::string> ChatSessions(Client& client, std::string_view rest) {
  MNEMON_ASSIGN_OR_RETURN(const std::string word, OneWord(rest, "/sessions", true));
  if (!word.empty()) return absl::InvalidArgumentError("use /sessions");
  const absl::StatusOr<std::vector<Session>> sessions = client.ListSessions();
  if (!sessions.ok()) return Described(sessions.status());
  return SessionTable(*sessions);
}

}  // namespace mnemon::client
