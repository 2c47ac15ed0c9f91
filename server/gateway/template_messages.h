// SPDX-License-Identifier: MIT
// A conversation in OpenAI's form as the variables of a model's chat template.
#pragma once

#include <string>

#include "nlohmann/json.hpp"
#include "server/gateway/json_fields.h"

namespace mnemon {

// Adds to `variables` what a chat template takes: "messages", of the member `field` of
// `body`, which has the keys in the order of the request; "tools"; and the members of
// "chat_template_kwargs". Roles are system, developer (which becomes system), user,
// assistant and tool. A content that is a list of parts of text becomes one string; the
// arguments of a tool call, where they are a string of JSON, become its value; members
// that are null are left out. At most 4096 messages and 1024 tools. Faults go to
// `fields`, which takes these members.
void ReadTemplateVariables(JsonFields& fields, const std::string& field,
                           const nlohmann::ordered_json& body,
                           nlohmann::ordered_json& variables);

}  // namespace mnemon
