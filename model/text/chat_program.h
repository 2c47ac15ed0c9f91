// SPDX-License-Identifier: MIT
// The chat template of a Hugging Face model: a program that renders a conversation as
// text.
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

// Immutable after construction; safe for concurrent use.
class ChatProgram {
 public:
  // Null if no file has a template. Errors of FindChatTemplate and of
  // JinjaTemplate::Parse, which name the file.
  static absl::StatusOr<std::shared_ptr<const ChatProgram>> Make(
      const ChatFileTexts& texts);

  // The text of `conversation`, an object: "messages", and other members that the
  // template uses ("tools", "enable_thinking", ..). With `answer`, ends with the start
  // of an answer. Errors of JinjaTemplate::Render.
  absl::StatusOr<std::string> Render(const nlohmann::ordered_json& conversation,
                                     bool answer, absl::CivilSecond now) const;

  // The text that `messages` of `conversation` append after a text of messages that
  // ended with an answer: the end of that answer, these messages, and the start of the
  // next answer. If the template would now render the earlier part differently, such as
  // without the thoughts of a model, that is ignored: the history keeps what the model
  // has written. INVALID_ARGUMENT if the template leaves out the answer, or ends it
  // differently.
  absl::StatusOr<std::string> RenderMore(const nlohmann::ordered_json& conversation,
                                         absl::CivilSecond now) const;

 private:
  ChatProgram(JinjaTemplate program, ChatFiles files);

  JinjaTemplate program_;
  std::optional<std::string> bos_token_, eos_token_;
};

}  // namespace mnemon
