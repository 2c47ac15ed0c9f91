// SPDX-License-Identifier: MIT
#include "server/engine/request_check.h"

#include <algorithm>
#include <utility>

#include "base/error.h"
#include "base/quote.h"
#include "base/status_macros.h"
#include "base/strings.h"

namespace mnemon {
namespace {

constexpr size_t kMaxIdSize = 63;
constexpr size_t kMaxStopTokens = 1024;
constexpr std::chrono::hours kMaxTtl{24 * 36525};

bool IsIdCharacter(char c) {
  return (c >= 'a' && c <= 'z') || (c >= '0' && c <= '9') || c == '-';
}

absl::Status CheckToken(int32_t token, size_t index, std::string_view field,
                        int64_t vocab) {
  if (token >= 0 && token < vocab) return absl::OkStatus();
  return InvalidField(StrCat(field, "[", index, "]"),
                      StrCat("token ", token, " at index ", index, " of ", field,
                             " is not in 0..", vocab - 1));
}

absl::Status TooLong(size_t tokens, int64_t limit) {
  return InvalidField("prompt", StrCat("the prompt has ", tokens, " tokens, at most ",
                                       limit, " are taken in one call"));
}

// An error of the tokenizer, which does not know the request's field names.
absl::Status OfPrompt(const absl::Status& status) {
  ErrorDetail detail = GetErrorDetail(status).value_or(ErrorDetail{});
  if (detail.reason.empty()) detail.reason = "INVALID_VALUE";
  detail.field = "prompt";
  return MakeError(status.code(), std::string(status.message()), std::move(detail));
}

}  // namespace

absl::Status CheckSessionId(const std::string& id, const std::string& field) {
  if (!id.empty() && id.size() <= kMaxIdSize && id[0] != '-' &&
      std::all_of(id.begin(), id.end(), IsIdCharacter)) {
    return absl::OkStatus();
  }
  return InvalidField(field, StrCat("a session id is 1 to ", kMaxIdSize,
                                    " characters of a-z, 0-9 and '-', the first not "
                                    "'-'; got ",
                                    Quoted(id)));
}

absl::Status CheckTtl(const std::optional<std::chrono::milliseconds>& ttl) {
  if (!ttl || (ttl->count() > 0 && *ttl <= kMaxTtl)) return absl::OkStatus();
  return InvalidField("ttl", StrCat("ttl must be above 0 and at most 100 years, got ",
                                    ttl->count(), " ms"));
}

absl::Status CheckCall(const GenerateRequest& request, const CallLimits& limits) {
  MNEMON_RETURN_IF_ERROR(ValidateSampling(request.sampling));
  if (request.max_tokens &&
      (*request.max_tokens < 0 || *request.max_tokens > limits.max_tokens)) {
    return InvalidField("max_tokens",
                        StrCat("max_tokens must be from 0 to ", limits.max_tokens,
                               ", got ", *request.max_tokens));
  }
  if (request.stop_tokens.size() > kMaxStopTokens) {
    return InvalidField("stop_token_ids",
                        StrCat("at most ", kMaxStopTokens, " stop_token_ids, got ",
                               request.stop_tokens.size()));
  }
  for (size_t i = 0; i < request.stop_tokens.size(); ++i) {
    MNEMON_RETURN_IF_ERROR(
        CheckToken(request.stop_tokens[i], i, "stop_token_ids", limits.vocab));
  }
  return absl::OkStatus();
}

absl::StatusOr<std::vector<int32_t>> PromptTokens(const Prompt& prompt,
                                                  const Tokenizer* tokenizer,
                                                  const CallLimits& limits) {
  std::vector<int32_t> tokens;
  if (const auto* ids = std::get_if<std::vector<int32_t>>(&prompt)) {
    if (static_cast<int64_t>(ids->size()) > limits.max_prompt_tokens) {
      return TooLong(ids->size(), limits.max_prompt_tokens);
    }
    tokens = *ids;
  } else if (const auto& text = std::get<std::string>(prompt); !text.empty()) {
    if (!tokenizer) {
      return MakeError(absl::StatusCode::kFailedPrecondition,
                       "the model has no tokenizer: send token ids instead of text",
                       {.reason = "NO_TOKENIZER", .field = "prompt"});
    }
    auto encoded = tokenizer->Encode(text);
    if (!encoded.ok()) return OfPrompt(encoded.status());
    tokens = *std::move(encoded);
    if (static_cast<int64_t>(tokens.size()) > limits.max_prompt_tokens) {
      return TooLong(tokens.size(), limits.max_prompt_tokens);
    }
  }
  for (size_t i = 0; i < tokens.size(); ++i) {
    MNEMON_RETURN_IF_ERROR(CheckToken(tokens[i], i, "prompt", limits.vocab));
  }
  return tokens;
}

}  // namespace mnemon
