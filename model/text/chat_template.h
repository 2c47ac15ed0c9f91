// SPDX-License-Identifier: MIT
// A plain chat template, which turns the messages of a conversation into the text that
// a model continues with its answer.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "absl/status/statusor.h"

namespace mnemon {

enum class ChatRole { kSystem, kUser, kAssistant };

struct ChatMessage {
  ChatRole role = ChatRole::kUser;
  std::string content;
};

// Each text contains "{content}" once, in place of the content of a message of that
// role. These are the defaults without a file in the checkpoint: one line per message,
// and nothing else.
struct ChatTemplate {
  std::string system = "{content}\n";
  std::string user = "{content}\n";
  std::string assistant = "{content}\n";
  std::string answer;             // precedes the answer
  std::vector<std::string> stop;  // strings at which an answer ends

  const std::string& TextOf(ChatRole role) const;
  bool operator==(const ChatTemplate&) const = default;
};

// The messages in order, then what precedes the answer. `answered`: the text continues
// an answer, whose end comes first: what the assistant's text has after "{content}".
std::string RenderChat(const ChatTemplate& chat,
                       const std::vector<ChatMessage>& messages, bool answered = false);

// Parses tokenizer_config.json: an object with "chat_template", an object with some of
// the members above. INVALID_ARGUMENT for a text without "{content}" and for unknown
// members. Other members of the file, which belong to other programs, are ignored; so
// is a "chat_template" that is a string, as in Hugging Face's files, where it is a
// program. Then, and without one, the result is the default.
absl::StatusOr<ChatTemplate> ParseTokenizerConfig(std::string_view json);

}  // namespace mnemon
