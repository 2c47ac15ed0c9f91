// SPDX-License-Identifier: MIT
// The chat template of a Hugging Face directory: which of its files has it, and the
// tokens that it may name.
#pragma once

#include <optional>
#include <string>

#include "absl/status/statusor.h"

namespace mnemon {

// The texts of files of the directory; nullopt where there is no such file.
struct ChatFileTexts {
  std::optional<std::string> chat_template_jinja;
  std::optional<std::string> tokenizer_config_json;
  std::optional<std::string> chat_template_json;
};

struct ChatFiles {
  // nullopt when no file has a template.
  std::optional<std::string> source;
  std::string file;  // that has it
  // Variables of the template; nullopt when tokenizer_config.json has none.
  std::optional<std::string> bos_token, eos_token;
};

// The template is chat_template.jinja, otherwise `chat_template` of
// tokenizer_config.json, otherwise that of chat_template.json: a string, or a list of
// {"name", "template"}, of which "default" is taken. An object there is mnemon's own
// plain template (chat_template.h) and none of these. INVALID_ARGUMENT names the file.
absl::StatusOr<ChatFiles> FindChatTemplate(const ChatFileTexts& texts);

}  // namespace mnemon
