// SPDX-License-Identifier: MIT
#include "server/gateway/chat_prompt.h"

#include <optional>
#include <utility>
#include <vector>

#include "absl/time/clock.h"
#include "absl/time/time.h"
#include "base/error.h"
#include "base/status_macros.h"
#include "base/strings.h"

namespace mnemon {

absl::StatusOr<ChatKind> KindOf(const ModelFacts& model) {
  if (model.no_chat_program.ok()) {
    return model.chat_program ? ChatKind::kProgram : ChatKind::kPlain;
  }
  return MakeError(absl::StatusCode::kFailedPrecondition,
                   StrCat("the model's chat template is not supported: ",
                          std::string(model.no_chat_program.message())),
                   {.reason = "NO_CHAT_TEMPLATE", .field = "messages"});
}

absl::Status SetTemplateText(const Engine& engine, const ModelFacts& model,
                             const std::string& text, v1::GenerateRequest& request) {
  MNEMON_ASSIGN_OR_RETURN(const TokenizedText tokens,
                          engine.Tokenize(model.name, text));
  request.mutable_prompt()->mutable_tokens()->mutable_ids()->Add(tokens.tokens.begin(),
                                                                 tokens.tokens.end());
  return absl::OkStatus();
}

absl::Status OfMessages(const absl::Status& status, const std::string& field) {
  if (status.ok()) return status;
  ErrorDetail detail = GetErrorDetail(status).value_or(ErrorDetail{});
  if (detail.reason.empty()) detail.reason = "INVALID_VALUE";
  detail.field = field;
  return MakeError(status.code(), std::string(status.message()), std::move(detail));
}

absl::CivilSecond LocalNow() {
  return absl::ToCivilSecond(absl::Now(), absl::LocalTimeZone());
}

nlohmann::ordered_json OrderedBody(const std::string& body) {
  return nlohmann::ordered_json::parse(body);
}

}  // namespace mnemon
