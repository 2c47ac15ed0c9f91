// SPDX-License-Identifier: MIT
#include "server/calls/conversation_prompt.h"

#include <algorithm>
#include <utility>

#include "absl/time/time.h"
#include "base/error.h"
#include "base/strings.h"
#include "model/text/chat_program.h"
#include "model/text/conversation.h"

namespace mnemon {
namespace {

constexpr char kConversation[] = "prompt.conversation";
// A stop string has at most 256 bytes, a token at least one.
constexpr int64_t kTail = 256;

// The same error with a field that begins with "prompt.conversation".
absl::Status InConversation(const absl::Status& status) {
  ErrorDetail detail = GetErrorDetail(status).value_or(ErrorDetail{});
  if (detail.reason.empty()) detail.reason = "INVALID_VALUE";
  detail.field =
      detail.field.empty() ? kConversation : StrCat(kConversation, ".", detail.field);
  return MakeError(status.code(), std::string(status.message()), std::move(detail));
}

}  // namespace

absl::StatusOr<std::unique_ptr<ConversationPrompt>> ConversationPrompt::Make(
    const ConversationText& conversation, const EngineModel& model) {
  if (!model.tokenizer) return NeedsTokenizer(kConversation);
  if (!model.facts.no_chat_program.ok()) {
    return MakeError(absl::StatusCode::kFailedPrecondition,
                     StrCat("the model's chat template is not supported: ",
                            std::string(model.facts.no_chat_program.message())),
                     {.reason = "NO_CHAT_TEMPLATE", .field = kConversation});
  }
  std::unique_ptr<ConversationPrompt> prompt(
      new ConversationPrompt(model, conversation.unknown));
  absl::StatusOr<nlohmann::ordered_json> variables =
      ParseConversation(conversation.json);
  if (!variables.ok()) return InConversation(variables.status());
  if (model.facts.chat_program) {
    prompt->variables_ = *std::move(variables);
    return prompt;
  }
  absl::StatusOr<std::vector<ChatMessage>> messages = PlainMessages(*variables);
  if (!messages.ok()) return InConversation(messages.status());
  prompt->messages_ = *std::move(messages);
  return prompt;
}

std::vector<std::string> ConversationPrompt::stop_strings() const {
  return model_.facts.chat_program ? std::vector<std::string>{}
                                   : model_.facts.chat_template.stop;
}

absl::StatusOr<std::string> ConversationPrompt::Text(
    bool continued, std::chrono::system_clock::time_point made) const {
  const ModelFacts& facts = model_.facts;
  if (!facts.chat_program) return RenderChat(facts.chat_template, messages_, continued);
  const absl::CivilSecond now =
      absl::ToCivilSecond(absl::FromChrono(made), absl::LocalTimeZone());
  return continued ? facts.chat_program->RenderMore(variables_, now)
                   : facts.chat_program->Render(variables_, /*answer=*/true, now);
}

size_t ConversationPrompt::Repeated(const std::string& text,
                                    const TokenHistory& history, int64_t size) const {
  const ModelFacts& facts = model_.facts;
  const int32_t last = history[static_cast<size_t>(size - 1)];
  if (std::ranges::binary_search(facts.generation.end_tokens, last)) {
    const std::string_view end = model_.tokenizer->TokenBytes(last);
    return text.starts_with(end) ? end.size() : 0;
  }
  const std::vector<std::string> stops = stop_strings();
  if (stops.empty()) return 0;
  std::vector<int32_t> tail(static_cast<size_t>(std::min(size, kTail)));
  history.Read(size - static_cast<int64_t>(tail.size()), tail);
  std::string said;
  for (const int32_t token : tail) said += model_.tokenizer->TokenBytes(token);
  for (const std::string& stop : stops) {
    const size_t at = text.find(stop);
    if (at == text.npos) continue;
    const std::string_view upto = std::string_view(text).substr(0, at + stop.size());
    if (said.ends_with(upto)) return upto.size();
  }
  return 0;
}

absl::StatusOr<std::vector<int32_t>> ConversationPrompt::TokensAfter(
    const TokenHistory& history, int64_t size, const CallLimits& limits,
    std::chrono::system_clock::time_point made) const {
  absl::StatusOr<std::string> text = Text(size > 0, made);
  if (!text.ok()) return InConversation(text.status());
  if (size > 0) text->erase(0, Repeated(*text, history, size));
  auto tokens =
      PromptTokens(LenientText{*std::move(text), unknown_}, model_.tokenizer, limits);
  if (!tokens.ok()) return OfField(tokens.status(), kConversation);
  // A program has the tokens that begin a text in it.
  if (size == 0 && !model_.facts.chat_program) {
    const auto before = model_.tokenizer->before_text();
    tokens->insert(tokens->begin(), before.begin(), before.end());
  }
  return tokens;
}

}  // namespace mnemon
