// SPDX-License-Identifier: MIT
// Conversations sent by clients.
#pragma once

#include <string_view>
#include <vector>

#include "absl/status/statusor.h"
#include "model/text/chat_template.h"
#include "nlohmann/json_fwd.hpp"

namespace mnemon {

// The variables of a chat template, from a client's JSON object: "messages", at most
// 4096; "tools", at most 1024 objects; and the members of "chat_template_kwargs". Keys
// keep their order. Roles are system, developer (which becomes system), user, assistant
// and tool. A content that is a list of text parts becomes one string; arguments of a
// tool call given as a string of JSON become its value; null members are dropped.
// INVALID_ARGUMENT with the field at fault: "messages[2].role".
absl::StatusOr<nlohmann::ordered_json> ParseConversation(std::string_view json);

// The messages of such variables, for a template that uses only contents. UNIMPLEMENTED
// for tools and other variables, INVALID_ARGUMENT for messages of tools.
absl::StatusOr<std::vector<ChatMessage>> PlainMessages(
    const nlohmann::ordered_json& variables);

}  // namespace mnemon
