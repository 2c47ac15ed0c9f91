// SPDX-License-Identifier: MIT
// Text to tokens and back, without running a model.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "model/text/tokenizer.h"
#include "server/requests/request.h"

namespace mnemon {

// Engine::Tokenize and Detokenize have the limits. A null tokenizer is
// FAILED_PRECONDITION, NO_TOKENIZER.
absl::StatusOr<TokenizedText> TextToTokens(const Tokenizer* tokenizer,
                                           const std::string& text);
absl::StatusOr<DetokenizedText> TokensToText(const Tokenizer* tokenizer,
                                             const std::vector<int32_t>& tokens);

// Fills in text and byte_offsets of `part`, which has tokens.
void AddText(const Tokenizer& tokenizer, HistoryPart& part);

}  // namespace mnemon
