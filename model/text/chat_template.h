// SPDX-License-Identifier: MIT
// A plain chat template: how the messages of a conversation become the text that a
// model continues with its answer.
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

// Each text has "{content}" once, where the content of a message of that role goes.
// Without a file in the checkpoint these: a line per message, and nothing else.
struct ChatTemplate {
  std::string system = "{content}\n";
  std::string user = "{content}\n";
  std::string assistant = "{content}\n";
  std::string answer;             // stands before the answer
  std::vector<std::string> stop;  // strings at which an answer ends

  const std::string& TextOf(ChatRole role) const;
  bool operator==(const ChatTemplate&) const = default;
};

// The messages, one behind the other, and what stands before the answer. `answered`:
// the text goes on behind an answer, whose end, what the assistant's text has behind
// "{content}", comes first.
std::string RenderChat(const ChatTemplate& chat,
                       const std::vector<ChatMessage>& messages, bool answered = false);

// From tokenizer_config.json: an object with "chat_template", an object that has some
// of the members above; a text without "{content}" and unknown members are
// INVALID_ARGUMENT. Other members of the file, which belong to other programs, are left
// alone; so is a "chat_template" that is a string, as in Hugging Face's files, which
// would be a program: then, and without one, the template is the default.
absl::StatusOr<ChatTemplate> ParseTokenizerConfig(std::string_view json);

}  // namespace mnemon
