// SPDX-License-Identifier: MIT
// The chat template of a Hugging Face directory: the file that contains it, and the
// tokens that it may name.
#pragma once

#include <optional>
#include <string>

#include "absl/status/statusor.h"

namespace mnemon {

// Contents of files of the directory; nullopt if a file does not exist.
struct ChatFileTexts {
  std::optional<std::string> chat_template_jinja;
  std::optional<std::string> tokenizer_config_json;
  std::optional<std::string> chat_template_json;
};

struct ChatFiles {
  // nullopt if no file has a template.
  std::optional<std::string> source;
  std::string file;  // file that has the template
  // Variables of the template; nullopt if tokenizer_config.json has none.
  std::optional<std::string> bos_token, eos_token;
};

// The template is chat_template.jinja, else `chat_template` of tokenizer_config.json,
// else that of chat_template.json: a string, or a list of {"name", "template"}, of
// which "default" is used. An object there is mnemon's own plain template
// (chat_template.h) and ignored. INVALID_ARGUMENT names the file.
absl::StatusOr<ChatFiles> FindChatTemplate(const ChatFileTexts& texts);

}  // namespace mnemon
