// SPDX-License-Identifier: MIT
#include "model/text/conversation.h"

#include <algorithm>
#include <optional>
#include <string>
#include <utility>

#include "base/error.h"
#include "base/files/json.h"
#include "base/quote.h"
#include "base/status_macros.h"
#include "base/strings.h"
#include "nlohmann/json.hpp"

namespace mnemon {
namespace {

using Ordered = nlohmann::ordered_json;

constexpr size_t kMostMessages = 4096, kMostTools = 1024;
constexpr const char* kMessageRoles[] = {"system", "developer", "user", "assistant",
                                         "tool"};

absl::Status Fault(const std::string& field, const std::string& what) {
  return InvalidField(field, what);
}

// The text of a content that is a list of parts.
std::optional<std::string> JoinedParts(const Ordered& parts) {
  std::string text;
  for (const Ordered& part : parts) {
    const bool is_text = part.is_object() && part.contains("type") &&
                         part.contains("text") && part["text"].is_string() &&
                         (part["type"] == "text" || part["type"] == "input_text" ||
                          part["type"] == "output_text");
    if (!is_text) return std::nullopt;
    text += part["text"].get_ref<const std::string&>();
  }
  return text;
}

// Models have learned arguments as objects, not as strings.
void OpenArguments(Ordered& message) {
  if (!message.contains("tool_calls") || !message["tool_calls"].is_array()) return;
  for (Ordered& call : message["tool_calls"]) {
    if (!call.is_object() || !call.contains("function")) continue;
    Ordered& function = call["function"];
    if (!function.is_object() || !function.contains("arguments")) continue;
    Ordered& arguments = function["arguments"];
    if (!arguments.is_string()) continue;
    // Too deep nesting for ParseJson would overflow the stack of a copy.
    const auto text = arguments.get<std::string>();
    if (ParseJson(text, "arguments").ok()) arguments = Ordered::parse(text);
  }
}

absl::StatusOr<Ordered> ReadMessage(const std::string& at, const Ordered& given) {
  if (!given.is_object())
    return Fault(at, "a message must be an object with role and content");
  Ordered message = Ordered::object();
  for (const auto& [key, value] : given.items()) {
    if (!value.is_null()) message[key] = value;
  }
  const auto role = message.find("role");
  const bool known =
      role != message.end() && role->is_string() &&
      std::ranges::any_of(kMessageRoles, [&](const char* one) { return *role == one; });
  if (!known) {
    return Fault(at + ".role",
                 "the role must be system, developer, user, assistant or tool");
  }
  if (*role == "developer") *role = "system";
  const auto content = message.find("content");
  if (content == message.end()) {
    if (!message.contains("tool_calls"))
      return Fault(at + ".content", "the content is missing");
  } else if (!content->is_string()) {
    std::optional<std::string> text =
        content->is_array() ? JoinedParts(*content) : std::nullopt;
    if (!text) {
      return Fault(at + ".content",
                   "the content must be a string, or a list of parts of text");
    }
    *content = *std::move(text);
  }
  OpenArguments(message);
  return message;
}

}  // namespace

absl::StatusOr<Ordered> ParseConversation(std::string_view json) {
  if (const auto parsed = ParseJson(json, "the conversation"); !parsed.ok()) {
    return InvalidField("", std::string(parsed.status().message()));
  }
  Ordered given = Ordered::parse(json);
  if (!given.is_object()) {
    return InvalidField("", "the conversation must be a JSON object with messages");
  }
  Ordered messages, tools, variables = Ordered::object();
  for (auto& [key, value] : given.items()) {
    if (key == "messages") {
      messages = std::move(value);
    } else if (key == "tools") {
      tools = std::move(value);
    } else if (key != "chat_template_kwargs") {
      return Fault(
          key, StrCat("a conversation has messages, tools and chat_template_kwargs, "
                      "no ",
                      Quoted(key)));
    } else if (value.is_object()) {
      variables = std::move(value);
    } else if (!value.is_null()) {
      return Fault(key, "chat_template_kwargs must be an object");
    }
  }
  if (messages.is_null()) return Fault("messages", "the messages are missing");
  if (!messages.is_array() || messages.empty() || messages.size() > kMostMessages) {
    return Fault("messages",
                 StrCat("there must be a list of 1 to ", kMostMessages, " messages"));
  }
  Ordered& read = variables["messages"] = Ordered::array();
  for (size_t i = 0; i < messages.size(); ++i) {
    MNEMON_ASSIGN_OR_RETURN(Ordered message,
                            ReadMessage(StrCat("messages[", i, "]"), messages[i]));
    read.push_back(std::move(message));
  }
  if (tools.empty()) return variables;
  if (!tools.is_array() || tools.size() > kMostTools ||
      !std::ranges::all_of(tools, [](const Ordered& one) { return one.is_object(); })) {
    return Fault("tools",
                 StrCat("tools must be a list of at most ", kMostTools, " objects"));
  }
  variables["tools"] = std::move(tools);
  return variables;
}

absl::StatusOr<std::vector<ChatMessage>> PlainMessages(const Ordered& variables) {
  for (const auto& [key, value] : variables.items()) {
    if (key == "messages") continue;
    return MakeError(absl::StatusCode::kUnimplemented,
                     StrCat("the model has no chat template that takes ", key),
                     {.reason = "FIELD_UNIMPLEMENTED", .field = key});
  }
  std::vector<ChatMessage> messages;
  for (const Ordered& message : variables["messages"]) {
    const std::string at = StrCat("messages[", messages.size(), "]");
    const Ordered& role = message["role"];
    if (role == "tool" || !message.contains("content")) {
      return Fault(
          at + ".role",
          "the role must be system, developer, user or assistant: the model has "
          "no chat template that takes tools");
    }
    messages.push_back({.role = role == "system"      ? ChatRole::kSystem
                                : role == "assistant" ? ChatRole::kAssistant
                                                      : ChatRole::kUser,
                        .content = message["content"]});
  }
  return messages;
}

}  // namespace mnemon
