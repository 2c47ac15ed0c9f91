// SPDX-License-Identifier: MIT
// Messages of a conversation in OpenAI's form.
#pragma once

#include <string>
#include <vector>

#include "model/text/chat_template.h"
#include "nlohmann/json.hpp"
#include "server/gateway/json_fields.h"

namespace mnemon {

// A list of {"role": system | developer | user | assistant, "content": a string, or a
// list of parts of text}. Faults name `field`; at most 4096 messages.
std::vector<ChatMessage> ReadMessages(JsonFields& fields, const std::string& field,
                                      const nlohmann::json& list);

}  // namespace mnemon
