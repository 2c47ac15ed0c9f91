// SPDX-License-Identifier: MIT
#include "server/gateway/template_messages.h"

#include <algorithm>
#include <optional>
#include <utility>

#include "base/json.h"
#include "base/strings.h"

namespace mnemon {
namespace {

using Ordered = nlohmann::ordered_json;

constexpr size_t kMostTemplateMessages = 4096, kMostTools = 1024;
constexpr const char* kRoles[] = {"system", "developer", "user", "assistant", "tool"};

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

// Models have learned arguments as they are, not as a string within a string.
void OpenArguments(Ordered& message) {
  if (!message.contains("tool_calls") || !message["tool_calls"].is_array()) return;
  for (Ordered& call : message["tool_calls"]) {
    if (!call.is_object() || !call.contains("function")) continue;
    Ordered& function = call["function"];
    if (!function.is_object() || !function.contains("arguments")) continue;
    Ordered& arguments = function["arguments"];
    if (!arguments.is_string()) continue;
    // What is nested too deeply for ParseJson would overflow the stack of a copy.
    const auto text = arguments.get<std::string>();
    if (ParseJson(text, "arguments").ok()) arguments = Ordered::parse(text);
  }
}

void ReadMessage(JsonFields& fields, const std::string& at, const Ordered& given,
                 Ordered& messages) {
  if (!given.is_object()) {
    return fields.Fault(at, "must be an object with role and content");
  }
  Ordered message = Ordered::object();
  for (const auto& [key, value] : given.items()) {
    if (!value.is_null()) message[key] = value;
  }
  const auto role = message.find("role");
  const bool known =
      role != message.end() && role->is_string() &&
      std::ranges::any_of(kRoles, [&](const char* one) { return *role == one; });
  if (!known) {
    return fields.Fault(at + ".role",
                        "must be system, developer, user, assistant or tool");
  }
  if (*role == "developer") *role = "system";
  const auto content = message.find("content");
  if (content == message.end()) {
    if (!message.contains("tool_calls")) {
      return fields.Fault(at + ".content", "is missing");
    }
  } else if (content->is_array()) {
    std::optional<std::string> text = JoinedParts(*content);
    if (!text) {
      return fields.Fault(at + ".content",
                          "must be a string, or a list of parts of text");
    }
    *content = *std::move(text);
  } else if (!content->is_string()) {
    return fields.Fault(at + ".content",
                        "must be a string, or a list of parts of text");
  }
  OpenArguments(message);
  messages.push_back(std::move(message));
}

}  // namespace

void ReadTemplateVariables(JsonFields& fields, const std::string& field,
                           const Ordered& body, Ordered& variables) {
  for (const std::string& name :
       {field, std::string("tools"), std::string("chat_template_kwargs")}) {
    fields.Ignore(name);
  }
  const auto find = [&](const std::string& name) {
    const auto found = body.find(name);
    return found == body.end() || found->is_null() ? nullptr : &*found;
  };
  const Ordered* const list = find(field);
  if (list == nullptr) return fields.Fault(field, "is missing");
  if (!list->is_array() || list->empty() || list->size() > kMostTemplateMessages) {
    return fields.Fault(
        field, StrCat("must be a list of 1 to ", kMostTemplateMessages, " messages"));
  }
  if (const Ordered* const more = find("chat_template_kwargs")) {
    if (!more->is_object()) {
      return fields.Fault("chat_template_kwargs", "must be an object");
    }
    variables.update(*more);
  }
  Ordered messages = Ordered::array();
  for (size_t i = 0; i < list->size(); ++i) {
    ReadMessage(fields, StrCat(field, "[", i, "]"), (*list)[i], messages);
  }
  variables["messages"] = std::move(messages);
  const Ordered* const tools = find("tools");
  if (tools == nullptr || tools->empty()) return;
  if (!tools->is_array() || tools->size() > kMostTools ||
      !std::ranges::all_of(*tools,
                           [](const Ordered& one) { return one.is_object(); })) {
    return fields.Fault("tools",
                        StrCat("must be a list of at most ", kMostTools, " objects"));
  }
  variables["tools"] = *tools;
}

}  // namespace mnemon
