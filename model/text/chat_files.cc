// SPDX-License-Identifier: MIT
#include "model/text/chat_files.h"

#include <utility>
#include <vector>

#include "base/files/json.h"
#include "base/quote.h"
#include "base/status_macros.h"
#include "base/strings.h"
#include "nlohmann/json.hpp"

namespace mnemon {
namespace {

using nlohmann::json;

// The member of an object; null if absent or null.
const json* Member(const json& object, const char* name) {
  const auto found = object.is_object() ? object.find(name) : object.end();
  return found == object.end() || found->is_null() ? nullptr : &*found;
}

absl::StatusOr<json> ParseObject(const std::string& text, const std::string& file) {
  MNEMON_ASSIGN_OR_RETURN(json parsed, ParseJson(text, file));
  if (parsed.is_object()) return parsed;
  return absl::InvalidArgumentError(StrCat(file, " is not a JSON object"));
}

absl::StatusOr<std::optional<std::string>> TemplateIn(const json& config,
                                                      const std::string& file) {
  const json* held = Member(config, "chat_template");
  if (held == nullptr || held->is_object()) return std::nullopt;
  if (held->is_string()) return held->get<std::string>();
  std::vector<std::string> names;
  for (const json& entry : held->is_array() ? *held : json::array()) {
    const json* name = Member(entry, "name");
    const json* text = Member(entry, "template");
    if (name == nullptr || text == nullptr || !name->is_string() ||
        !text->is_string()) {
      return absl::InvalidArgumentError(StrCat(
          file,
          ": an entry of chat_template lacks a \"name\" or \"template\" of text"));
    }
    if (*name == "default") return text->get<std::string>();
    names.push_back(Quoted(name->get<std::string>()));
  }
  return absl::InvalidArgumentError(StrCat(
      file, ": chat_template must be a string, or a list with the name 'default'",
      names.empty() ? "" : "; there are: " + StrJoin(names, ", ")));
}

// A special token is a string, or an object with "content".
absl::StatusOr<std::optional<std::string>> TokenIn(const json& config, const char* name,
                                                   const std::string& file) {
  const json* held = Member(config, name);
  if (held == nullptr) return std::nullopt;
  if (held->is_object()) held = Member(*held, "content");
  if (held != nullptr && held->is_string()) return held->get<std::string>();
  return absl::InvalidArgumentError(
      StrCat(file, ": ", name, " must be a string or an object with \"content\""));
}

}  // namespace

absl::StatusOr<ChatFiles> FindChatTemplate(const ChatFileTexts& texts) {
  ChatFiles found;
  if (texts.chat_template_jinja.has_value()) {
    found.source = texts.chat_template_jinja;
    found.file = "chat_template.jinja";
  }
  if (texts.tokenizer_config_json.has_value()) {
    const std::string file = "tokenizer_config.json";
    MNEMON_ASSIGN_OR_RETURN(const json config,
                            ParseObject(*texts.tokenizer_config_json, file));
    MNEMON_ASSIGN_OR_RETURN(found.bos_token, TokenIn(config, "bos_token", file));
    MNEMON_ASSIGN_OR_RETURN(found.eos_token, TokenIn(config, "eos_token", file));
    if (!found.source.has_value()) {
      MNEMON_ASSIGN_OR_RETURN(found.source, TemplateIn(config, file));
      found.file = file;
    }
  }
  if (!found.source.has_value() && texts.chat_template_json.has_value()) {
    const std::string file = "chat_template.json";
    MNEMON_ASSIGN_OR_RETURN(const json config,
                            ParseObject(*texts.chat_template_json, file));
    MNEMON_ASSIGN_OR_RETURN(found.source, TemplateIn(config, file));
    found.file = file;
  }
  if (!found.source.has_value()) found.file.clear();
  return found;
}

}  // namespace mnemon
