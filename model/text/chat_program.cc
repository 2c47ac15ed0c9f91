// SPDX-License-Identifier: MIT
#include "model/text/chat_program.h"

#include <utility>

#include "base/status_macros.h"
#include "nlohmann/json.hpp"

namespace mnemon {
namespace {

using Variables = nlohmann::ordered_json;

// A text that no template contains.
constexpr char kMarker[] = "mnemon:4f1d2c";

std::optional<std::string> AfterMarker(const std::string& text) {
  const size_t at = text.find(kMarker);
  if (at == text.npos) return std::nullopt;
  return text.substr(at + sizeof(kMarker) - 1);
}

}  // namespace

ChatProgram::ChatProgram(JinjaTemplate program, ChatFiles files)
    : program_(std::move(program)),
      bos_token_(std::move(files.bos_token)),
      eos_token_(std::move(files.eos_token)) {}

absl::StatusOr<std::shared_ptr<const ChatProgram>> ChatProgram::Make(
    const ChatFileTexts& texts) {
  MNEMON_ASSIGN_OR_RETURN(ChatFiles files, FindChatTemplate(texts));
  if (!files.source) return nullptr;
  MNEMON_ASSIGN_OR_RETURN(JinjaTemplate program,
                          JinjaTemplate::Parse(*files.source, files.file));
  return std::shared_ptr<const ChatProgram>(
      new ChatProgram(std::move(program), std::move(files)));
}

absl::StatusOr<std::string> ChatProgram::Render(const Variables& conversation,
                                                bool answer,
                                                absl::CivilSecond now) const {
  Variables variables = {{"tools", nullptr}, {"documents", nullptr}};
  if (bos_token_) variables["bos_token"] = *bos_token_;
  if (eos_token_) variables["eos_token"] = *eos_token_;
  variables.update(conversation);
  variables["add_generation_prompt"] = answer;
  return program_.Render(variables, now);
}

absl::StatusOr<std::string> ChatProgram::RenderMore(const Variables& conversation,
                                                    absl::CivilSecond now) const {
  Variables before = conversation, all = conversation;
  before["messages"] =
      Variables::array({{{"role", "user"}, {"content", "?"}},
                        {{"role", "assistant"}, {"content", kMarker}}});
  all["messages"] = before["messages"];
  for (const Variables& message : conversation["messages"]) {
    all["messages"].push_back(message);
  }
  MNEMON_ASSIGN_OR_RETURN(const std::string first, Render(before, false, now));
  MNEMON_ASSIGN_OR_RETURN(const std::string whole, Render(all, true, now));
  const std::optional<std::string> end = AfterMarker(first);
  std::optional<std::string> more = AfterMarker(whole);
  if (!end || !more || !more->starts_with(*end)) {
    return absl::InvalidArgumentError(
        "the model's chat template ends an answer in another way when more messages "
        "follow: send the whole conversation as messages");
  }
  return *std::move(more);
}

}  // namespace mnemon
