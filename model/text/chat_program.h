// SPDX-License-Identifier: MIT
// The chat template of a model of Hugging Face: a program that makes the text of a
// conversation.
#pragma once

#include <memory>
#include <optional>
#include <string>

#include "absl/status/statusor.h"
#include "absl/time/civil_time.h"
#include "model/text/chat_files.h"
#include "model/text/jinja/template.h"
#include "nlohmann/json_fwd.hpp"

namespace mnemon {

// Constant after construction; safe for concurrent use.
class ChatProgram {
 public:
  // Null where no file has a template. The errors of FindChatTemplate and of
  // JinjaTemplate::Parse, which name the file.
  static absl::StatusOr<std::shared_ptr<const ChatProgram>> Make(
      const ChatFileTexts& texts);

  // The text of `conversation`, an object: "messages", and what else the template takes
  // ("tools", "enable_thinking", ..). Behind the last message stands what begins an
  // answer if `answer`. The errors of JinjaTemplate::Render.
  absl::StatusOr<std::string> Render(const nlohmann::ordered_json& conversation,
                                     bool answer, absl::CivilSecond now) const;

  // What `messages` of `conversation` add to a text of messages that ended with an
  // answer: the end of that answer, these messages, and what begins the next one.
  // How the template writes what comes before that end when more follows, as without
  // the thoughts of a model, is left alone: the history keeps what the model has
  // written. INVALID_ARGUMENT where it leaves out the answer, or ends it in another
  // way.
  absl::StatusOr<std::string> RenderMore(const nlohmann::ordered_json& conversation,
                                         absl::CivilSecond now) const;

 private:
  ChatProgram(JinjaTemplate program, ChatFiles files);

  JinjaTemplate program_;
  std::optional<std::string> bos_token_, eos_token_;
};

}  // namespace mnemon
