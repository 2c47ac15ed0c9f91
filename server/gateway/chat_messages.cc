// SPDX-License-Identifier: MIT
#include "server/gateway/chat_messages.h"

#include <optional>
#include <utility>

#include "base/strings.h"

namespace mnemon {
namespace {

using nlohmann::json;

constexpr size_t kMostMessages = 4096;

std::optional<ChatRole> RoleOf(const json& message) {
  const auto role = message.find("role");
  if (role == message.end() || !role->is_string()) return std::nullopt;
  if (*role == "system" || *role == "developer") return ChatRole::kSystem;
  if (*role == "user") return ChatRole::kUser;
  if (*role == "assistant") return ChatRole::kAssistant;
  return std::nullopt;
}

std::optional<std::string> ContentOf(const json& message) {
  const auto content = message.find("content");
  if (content == message.end()) return std::nullopt;
  if (content->is_string()) return content->get<std::string>();
  if (!content->is_array()) return std::nullopt;
  std::string text;
  for (const json& part : *content) {
    if (!part.is_object()) return std::nullopt;
    const auto type = part.find("type");
    const auto value = part.find("text");
    const bool is_text =
        type != part.end() &&
        (*type == "text" || *type == "input_text" || *type == "output_text");
    if (!is_text || value == part.end() || !value->is_string()) return std::nullopt;
    text += value->get<std::string>();
  }
  return text;
}

}  // namespace

std::vector<ChatMessage> ReadMessages(JsonFields& fields, const std::string& field,
                                      const json& list) {
  std::vector<ChatMessage> messages;
  if (!list.is_array() || list.empty() || list.size() > kMostMessages) {
    fields.Fault(field, StrCat("must be a list of 1 to ", kMostMessages, " messages"));
    return messages;
  }
  for (size_t i = 0; i < list.size(); ++i) {
    const std::string at = StrCat(field, "[", i, "]");
    if (!list[i].is_object()) {
      fields.Fault(at, "must be an object with role and content");
      return messages;
    }
    const auto role = RoleOf(list[i]);
    if (!role) {
      fields.Fault(at + ".role", "must be system, developer, user or assistant");
      return messages;
    }
    auto content = ContentOf(list[i]);
    if (!content) {
      fields.Fault(at + ".content", "must be a string, or a list of parts of text");
      return messages;
    }
    messages.push_back({.role = *role, .content = *std::move(content)});
  }
  return messages;
}

}  // namespace mnemon
