// SPDX-License-Identifier: MIT
// The checks of a request that need no session: pure functions. Errors are
// INVALID_ARGUMENT and name the field, unless noted otherwise.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "model/text/tokenizer.h"
#include "server/engine/request.h"

namespace mnemon {

// See base/resource_id.h.
absl::Status CheckSessionId(const std::string& id, const std::string& field);

// Empty, or a UUID: 8-4-4-4-12 hexadecimal digits.
absl::Status CheckRequestId(const std::string& id);

// More than 0, at most 100 years. Likewise the time limit of a call.
absl::Status CheckTtl(const std::optional<std::chrono::milliseconds>& ttl);

struct CallLimits {
  int64_t vocab = 0;  // V
  int64_t max_tokens = 0;
  int64_t max_prompt_tokens = 0;
};

// 0 <= token < V, the element `index` of the field `field`.
absl::Status CheckToken(int32_t token, size_t index, std::string_view field,
                        int64_t vocab);

// The same error with the name of the request's field; for errors of the tokenizer.
absl::Status OfField(const absl::Status& status, const std::string& field);

// Everything but names and prompt.
absl::Status CheckCall(const GenerateRequest& request, const CallLimits& limits);

// Fields "top_candidate_count" and "candidate_ids".
absl::Status CheckCandidates(const CandidateChoice& choice, int64_t vocab);

// FAILED_PRECONDITION, NO_TOKENIZER, which names `field`.
absl::Status NeedsTokenizer(const std::string& field);

// The prompt as token ids, each below V. Text without a tokenizer (which may be null)
// is FAILED_PRECONDITION, NO_TOKENIZER. A conversation is refused: see
// ConversationPrompt.
absl::StatusOr<std::vector<int32_t>> PromptTokens(const Prompt& prompt,
                                                  const Tokenizer* tokenizer,
                                                  const CallLimits& limits);

// Whether it is text that is not empty.
bool IsText(const Prompt& prompt);

}  // namespace mnemon
