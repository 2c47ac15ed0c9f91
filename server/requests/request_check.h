// SPDX-License-Identifier: MIT
// Checks of a request that need no session: pure functions. Errors are INVALID_ARGUMENT
// and name the field, unless noted otherwise.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "model/text/tokenizer.h"
#include "server/requests/request.h"

namespace mnemon {

// See base/resource_id.h.
absl::Status CheckSessionId(const std::string& id, const std::string& field);

// Empty, or a UUID: 8-4-4-4-12 hexadecimal digits.
absl::Status CheckRequestId(const std::string& id);

// More than 0, at most 100 years. Also for the time limit of a call.
absl::Status CheckTtl(const std::optional<std::chrono::milliseconds>& ttl);

struct CallLimits {
  int64_t vocab = 0;  // V
  int64_t max_tokens = 0;
  int64_t max_prompt_tokens = 0;
};

// 0 <= token < V. The error names the element `index` of `field`.
absl::Status CheckToken(int32_t token, size_t index, std::string_view field,
                        int64_t vocab);
absl::Status CheckTokens(std::span<const int32_t> tokens, std::string_view field,
                         int64_t vocab);

// An error of the tokenizer with the name of the request's field.
absl::Status OfField(const absl::Status& status, const std::string& field);

// All except names and prompt.
absl::Status CheckCall(const GenerateRequest& request, const CallLimits& limits);

// Fields "top_candidate_count" and "candidate_ids".
absl::Status CheckCandidates(const CandidateChoice& choice, int64_t vocab);

// The error FAILED_PRECONDITION, NO_TOKENIZER, for `field`.
absl::Status NeedsTokenizer(const std::string& field);

// The prompt as token ids, each below V. `tokenizer` may be null: then text is
// FAILED_PRECONDITION, NO_TOKENIZER. Conversations are refused: see ConversationPrompt.
absl::StatusOr<std::vector<int32_t>> PromptTokens(const Prompt& prompt,
                                                  const Tokenizer* tokenizer,
                                                  const CallLimits& limits);

// Whether the prompt is text that is not empty.
bool IsText(const Prompt& prompt);

}  // namespace mnemon
