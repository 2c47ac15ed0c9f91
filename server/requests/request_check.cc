// SPDX-License-Identifier: MIT
#include "server/requests/request_check.h"

#include <algorithm>
#include <cctype>
#include <utility>

#include "base/error.h"
#include "base/quote.h"
#include "base/resource_id.h"
#include "base/status_macros.h"
#include "base/strings.h"
#include "base/utf8.h"

namespace mnemon {
namespace {

constexpr size_t kMaxStopTokens = 1024;
constexpr size_t kMaxStopStrings = 16;
constexpr size_t kMaxStopStringBytes = 256;
constexpr int32_t kMaxMostLikely = 20;
constexpr size_t kMaxCandidateIds = 100;
constexpr std::chrono::hours kMaxTime{24 * 36525};

absl::Status CheckTime(const std::string& field,
                       const std::optional<std::chrono::milliseconds>& time) {
  if (!time || (time->count() > 0 && *time <= kMaxTime)) return absl::OkStatus();
  return InvalidField(field,
                      StrCat(field, " must be above 0 and at most 100 years, got ",
                             time->count(), " ms"));
}

absl::Status CheckStopStrings(const std::vector<std::string>& strings) {
  if (strings.size() > kMaxStopStrings) {
    return InvalidField("stop_strings", StrCat("at most ", kMaxStopStrings,
                                               " stop_strings, got ", strings.size()));
  }
  for (size_t i = 0; i < strings.size(); ++i) {
    if (!strings[i].empty() && strings[i].size() <= kMaxStopStringBytes &&
        IsValidUtf8(strings[i])) {
      continue;
    }
    const std::string field = StrCat("stop_strings[", i, "]");
    return InvalidField(
        field, StrCat(field, " must be 1 to ", kMaxStopStringBytes, " bytes of UTF-8"));
  }
  return absl::OkStatus();
}

}  // namespace

absl::Status CheckSessionId(const std::string& id, const std::string& field) {
  if (IsResourceId(id)) return absl::OkStatus();
  return InvalidField(field,
                      StrCat("an id is ", kResourceIdRule, "; got ", Quoted(id)));
}

absl::Status CheckRequestId(const std::string& id) {
  constexpr std::string_view kForm = "xxxxxxxx-xxxx-xxxx-xxxx-xxxxxxxxxxxx";
  const bool good = std::ranges::equal(id, kForm, [](unsigned char c, char form) {
    return form == '-' ? c == '-' : std::isxdigit(c) != 0;
  });
  if (id.empty() || good) return absl::OkStatus();
  return InvalidField("request_id",
                      StrCat("request_id must be a UUID, got ", Quoted(id)));
}

absl::Status CheckTtl(const std::optional<std::chrono::milliseconds>& ttl) {
  return CheckTime("ttl", ttl);
}

absl::Status CheckToken(int32_t token, size_t index, std::string_view field,
                        int64_t vocab) {
  if (token >= 0 && token < vocab) return absl::OkStatus();
  return InvalidField(StrCat(field, "[", index, "]"),
                      StrCat("token ", token, " at index ", index, " of ", field,
                             " is not in 0..", vocab - 1));
}

absl::Status CheckTokens(std::span<const int32_t> tokens, std::string_view field,
                         int64_t vocab) {
  for (size_t i = 0; i < tokens.size(); ++i) {
    MNEMON_RETURN_IF_ERROR(CheckToken(tokens[i], i, field, vocab));
  }
  return absl::OkStatus();
}

absl::Status OfField(const absl::Status& status, const std::string& field) {
  ErrorDetail detail = GetErrorDetail(status).value_or(ErrorDetail{});
  if (detail.reason.empty()) detail.reason = "INVALID_VALUE";
  detail.field = field;
  return MakeError(status.code(), std::string(status.message()), std::move(detail));
}

absl::Status CheckCall(const GenerateRequest& request, const CallLimits& limits) {
  MNEMON_RETURN_IF_ERROR(CheckRequestId(request.request_id));
  MNEMON_RETURN_IF_ERROR(ValidateSampling(request.sampling, limits.vocab));
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
  MNEMON_RETURN_IF_ERROR(
      CheckTokens(request.stop_tokens, "stop_token_ids", limits.vocab));
  MNEMON_RETURN_IF_ERROR(CheckStopStrings(request.stop_strings));
  MNEMON_RETURN_IF_ERROR(CheckTime("time_limit", request.time_limit));
  return CheckCandidates(request.logprobs.candidates, limits.vocab);
}

absl::Status CheckCandidates(const CandidateChoice& choice, int64_t vocab) {
  const int64_t most = std::min<int64_t>(kMaxMostLikely, vocab);
  if (choice.most_likely < 0 || choice.most_likely > most) {
    return InvalidField("top_candidate_count",
                        StrCat("top_candidate_count must be from 0 to ", most, ", got ",
                               choice.most_likely));
  }
  if (choice.ids.size() > kMaxCandidateIds) {
    return InvalidField("candidate_ids",
                        StrCat("at most ", kMaxCandidateIds, " candidate_ids, got ",
                               choice.ids.size()));
  }
  return CheckTokens(choice.ids, "candidate_ids", vocab);
}

absl::Status NeedsTokenizer(const std::string& field) {
  return MakeError(absl::StatusCode::kFailedPrecondition,
                   "the model has no tokenizer: only token ids work",
                   {.reason = "NO_TOKENIZER", .field = field});
}

bool IsText(const Prompt& prompt) {
  const auto* const text = std::get_if<std::string>(&prompt);
  const auto* const lenient = std::get_if<LenientText>(&prompt);
  return text != nullptr ? !text->empty()
                         : lenient != nullptr && !lenient->text.empty();
}

absl::StatusOr<std::vector<int32_t>> PromptTokens(const Prompt& prompt,
                                                  const Tokenizer* tokenizer,
                                                  const CallLimits& limits) {
  std::vector<int32_t> tokens;
  if (std::holds_alternative<ConversationText>(prompt)) {
    return InvalidField("prompt.conversation",
                        "a conversation is taken by Generate and Converse alone");
  }
  if (const auto* ids = std::get_if<std::vector<int32_t>>(&prompt)) {
    tokens = *ids;
  } else if (IsText(prompt)) {
    if (!tokenizer) return NeedsTokenizer("prompt");
    const auto* const lenient = std::get_if<LenientText>(&prompt);
    auto encoded = lenient != nullptr
                       ? tokenizer->EncodeWith(lenient->text, lenient->unknown)
                       : tokenizer->Encode(std::get<std::string>(prompt));
    if (!encoded.ok()) return OfField(encoded.status(), "prompt");
    tokens = *std::move(encoded);
  }
  if (static_cast<int64_t>(tokens.size()) > limits.max_prompt_tokens) {
    return InvalidField("prompt",
                        StrCat("the prompt has ", tokens.size(), " tokens, at most ",
                               limits.max_prompt_tokens, " are taken in one call"));
  }
  MNEMON_RETURN_IF_ERROR(CheckTokens(tokens, "prompt", limits.vocab));
  return tokens;
}

}  // namespace mnemon
