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
  std::string session;  // a name: continued or created, and kept; empty: a new one
  std::string system;   // a message that begins each new session; empty: none
  bool keep = false;    // keep those without a name too
  // Of a session that is created; every turn renews it. nullopt: the server's default.
  std::optional<std::chrono::milliseconds> ttl = kDefaultTtl;
  // Of one that /fork makes and names; nullopt: the parent's, and after /clear the
  // server's default.
  std::optional<std::chrono::milliseconds> named_ttl = kDefaultTtl;
  bool terminal = false;
  // Sampling, stopping, resume and on_disconnect. Without max_tokens an answer in a
  // chat template goes to its end, another one has kDefaultMaxTokens.
  GenerateOptions generate;
};

struct ChatPorts {
  // The next line; nullopt at the end. `more`: inside a text of several lines.
  std::function<std::optional<std::string>(bool more)> read_line;
  // Called before an answer begins; whether the current answer, or the chat, is to end.
  std::function<void()> begin_answer;
  std::function<bool()> stop_answer;
  std::function<bool()> stop_chat;
  std::ostream& out;   // answers
  std::ostream& note;  // everything else
  // The request id of the newest call on a session, over chats; "" where it is not
  // known. Either may be null.
  std::function<void(const std::string& session, const std::string& request_id)>
      remember = nullptr;
  std::function<std::string(const std::string& session)> recall = nullptr;
};

// Reads lines until the end or /bye. A line is a user's message in the model's chat
// template; of a model without one it is sent as it is typed. Lines between """ are one
// text. Deletes at the end the sessions that it made without a name,
// unless they are to be kept. Without a terminal the first error of a turn is also the
// result, as Told; UNAVAILABLE ends the chat.
absl::Status RunChat(Client& client, const ChatOptions& options,
                     const ChatPorts& ports);

}  // namespace mnemon::client
