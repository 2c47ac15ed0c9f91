// SPDX-License-Identifier: MIT
// The conversation of `mnemon chat`, without terminal and signal handling.
#pragma once

#include <chrono>
#include <functional>
#include <optional>
#include <ostream>
#include <string>

#include "absl/status/status.h"
#include "client/client.h"

namespace mnemon::client {

struct ChatOptions {
  std::string model;
  std::string session;  // name: continued or created, and kept; empty: a new session
  std::string system;   // first message of each new session; empty: none
  bool keep = false;    // keep sessions without a name too
  // Ttl of a created session; every turn renews it. nullopt: the server's default.
  std::optional<std::chrono::milliseconds> ttl = kDefaultTtl;
  // Ttl of a session that /fork creates with a name; nullopt: the parent's, and after
  // /clear the server's default.
  std::optional<std::chrono::milliseconds> named_ttl = kDefaultTtl;
  bool terminal = false;
  // Sampling, stopping, resume and on_disconnect. Without max_tokens, an answer with a
  // chat template ends by itself; others have kDefaultMaxTokens.
  GenerateOptions generate;
};

struct ChatPorts {
  // The next line; nullopt at the end. `more`: inside a text of several lines.
  std::function<std::optional<std::string>(bool more)> read_line;
  // Called before an answer begins; and whether the current answer, or the chat, should
  // end.
  std::function<void()> begin_answer;
  std::function<bool()> stop_answer;
  std::function<bool()> stop_chat;
  std::ostream& out;   // answers
  std::ostream& note;  // everything else
  // Access to the request id of the newest call on a session, shared by chats; "" if
  // unknown. Either may be null.
  std::function<void(const std::string& session, const std::string& request_id)>
      remember = nullptr;
  std::function<std::string(const std::string& session)> recall = nullptr;
};

// Reads lines until the end or /bye. A line is a user's message in the model's chat
// template; without a template it is sent as typed. Lines between """ form one text. At
// the end deletes the sessions that it created without a name, unless `keep`. Without a
// terminal, the first error of a turn is also the result, as Told; UNAVAILABLE ends the
// chat.
absl::Status RunChat(Client& client, const ChatOptions& options,
                     const ChatPorts& ports);

}  // namespace mnemon::client
