// SPDX-License-Identifier: MIT
// The prompt of a conversation, by a model's chat template.
#pragma once

#include <string>

#include "absl/status/statusor.h"
#include "absl/time/civil_time.h"
#include "mnemon/v1/generation.pb.h"
#include "nlohmann/json.hpp"
#include "server/engine/engine.h"

namespace mnemon {

// How the messages of a model's conversations are read.
enum class ChatKind { kPlain, kProgram };
// FAILED_PRECONDITION, NO_CHAT_TEMPLATE, where the template is not supported.
absl::StatusOr<ChatKind> KindOf(const ModelFacts& model);

// Sets the prompt of `request` to `text`, which a chat template has made: as ids, since
// it has the tokens that begin a text in it, if any. Errors are those of Tokenize.
absl::Status SetTemplateText(const Engine& engine, const ModelFacts& model,
                             const std::string& text, v1::GenerateRequest& request);

// An error of a chat template, of the field that holds the messages.
absl::Status OfMessages(const absl::Status& status, const std::string& field);

// What the clock of this place shows, for templates.
absl::CivilSecond LocalNow();

// A body that ParseBody has taken, with the order of its keys.
nlohmann::ordered_json OrderedBody(const std::string& body);

}  // namespace mnemon
