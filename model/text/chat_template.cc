// SPDX-License-Identifier: MIT
#include "model/text/chat_template.h"

#include <utility>

#include "base/files/json.h"
#include "base/quote.h"
#include "base/status_macros.h"
#include "base/strings.h"
#include "nlohmann/json.hpp"

namespace mnemon {
namespace {

using nlohmann::json;

constexpr std::string_view kContent = "{content}";
constexpr size_t kMostStops = 16;
constexpr size_t kMostStopBytes = 256;
constexpr size_t kMostText = 4096;

absl::Status TemplateFault(std::string_view fault) {
  return absl::InvalidArgumentError(StrCat("tokenizer_config.json: ", fault));
}

absl::Status ReadText(const std::string& name, const json& value, bool with_content,
                      std::string& out) {
  if (!value.is_string() || value.get<std::string>().size() > kMostText) {
    return TemplateFault(StrCat("chat_template.", name, " must be a string of at most ",
                                kMostText, " bytes"));
  }
  out = value.get<std::string>();
  const size_t found = out.find(kContent);
  const bool once =
      found != std::string::npos && out.find(kContent, found + 1) == std::string::npos;
  if (with_content && !once) {
    return TemplateFault(StrCat("chat_template.", name, " must have {content} once"));
  }
  return absl::OkStatus();
}

absl::Status ReadStops(const json& value, std::vector<std::string>& out) {
  const bool list = value.is_array() && value.size() <= kMostStops;
  for (const json& stop : list ? value : json::array()) {
    if (!stop.is_string()) continue;
    std::string text = stop.get<std::string>();
    if (!text.empty() && text.size() <= kMostStopBytes) out.push_back(std::move(text));
  }
  if (list && out.size() == value.size()) return absl::OkStatus();
  return TemplateFault(StrCat("chat_template.stop must be a list of at most ",
                              kMostStops, " strings of 1 to ", kMostStopBytes,
                              " bytes"));
}

}  // namespace

const std::string& ChatTemplate::TextOf(ChatRole role) const {
  switch (role) {
    case ChatRole::kSystem:
      return system;
    case ChatRole::kUser:
      return user;
    case ChatRole::kAssistant:
      break;
  }
  return assistant;
}

std::string RenderChat(const ChatTemplate& chat,
                       const std::vector<ChatMessage>& messages, bool answered) {
  std::string out;
  if (answered) {
    out = chat.assistant.substr(chat.assistant.find(kContent) + kContent.size());
  }
  for (const ChatMessage& message : messages) {
    const std::string& text = chat.TextOf(message.role);
    const size_t at = text.find(kContent);
    out += text.substr(0, at);
    out += message.content;
    out += text.substr(at + kContent.size());
  }
  return out + chat.answer;
}

absl::StatusOr<ChatTemplate> ParseTokenizerConfig(std::string_view text) {
  MNEMON_ASSIGN_OR_RETURN(const json outer, ParseJson(text, "tokenizer_config.json"));
  if (!outer.is_object()) return TemplateFault("not an object");
  ChatTemplate out;
  const auto found = outer.find("chat_template");
  if (found == outer.end() || found->is_string() || found->is_null()) return out;
  if (!found->is_object()) return TemplateFault("chat_template must be an object");
  for (const auto& [name, value] : found->items()) {
    if (name == "system") {
      MNEMON_RETURN_IF_ERROR(ReadText(name, value, true, out.system));
    } else if (name == "user") {
      MNEMON_RETURN_IF_ERROR(ReadText(name, value, true, out.user));
    } else if (name == "assistant") {
      MNEMON_RETURN_IF_ERROR(ReadText(name, value, true, out.assistant));
    } else if (name == "answer") {
      MNEMON_RETURN_IF_ERROR(ReadText(name, value, false, out.answer));
    } else if (name == "stop") {
      MNEMON_RETURN_IF_ERROR(ReadStops(value, out.stop));
    } else {
      return TemplateFault(
          StrCat("unknown member ", Quoted(name), " of chat_template"));
    }
  }
  return out;
}

}  // namespace mnemon
