// SPDX-License-Identifier: MIT
// The prompt of a conversation: its messages in the chat template of the model.
#pragma once

#include <chrono>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "model/text/chat_template.h"
#include "nlohmann/json.hpp"
#include "server/requests/request.h"
#include "server/requests/request_check.h"
#include "server/sessions/token_history.h"

namespace mnemon {

// Constant after construction. Fields of errors begin with "prompt.conversation".
class ConversationPrompt {
 public:
  // The errors of ParseConversation and PlainMessages. FAILED_PRECONDITION,
  // NO_CHAT_TEMPLATE, if the model's template is not supported, or NO_TOKENIZER.
  // `model` outlives it.
  static absl::StatusOr<std::unique_ptr<ConversationPrompt>> Make(
      const ConversationText& conversation, const EngineModel& model);

  // The tokens after the first `size` of `history`: the whole conversation for an empty
  // one, else what the messages add to it, beginning with the end of the last answer as
  // far as the history lacks it. `made`: what the template takes for now.
  absl::StatusOr<std::vector<int32_t>> TokensAfter(
      const TokenHistory& history, int64_t size, const CallLimits& limits,
      std::chrono::system_clock::time_point made) const;

  // Strings at which an answer ends.
  std::vector<std::string> stop_strings() const;

 private:
  ConversationPrompt(const EngineModel& model, UnknownCharacters unknown)
      : model_(model), unknown_(unknown) {}

  absl::StatusOr<std::string> Text(bool continued,
                                   std::chrono::system_clock::time_point made) const;
  // Bytes at the beginning of `text` that the history ends with.
  size_t Repeated(const std::string& text, const TokenHistory& history,
                  int64_t size) const;

  const EngineModel& model_;
  const UnknownCharacters unknown_;
  nlohmann::ordered_json variables_;   // for a template that is a program
  std::vector<ChatMessage> messages_;  // for another one
};

}  // namespace mnemon
