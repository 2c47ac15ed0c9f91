// SPDX-License-Identifier: MIT
// Conversion of text to tokens and back, without a model call: pure functions.
// `tokenizer` may be null, which is FAILED_PRECONDITION, NO_TOKENIZER.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "model/text/tokenizer.h"
#include "server/engine/request.h"

namespace mnemon {

// At most 512 KiB of text, so that the answer fits into a message of 4 MiB.
// INVALID_ARGUMENT names the field "text".
absl::StatusOr<TokenizedText> Tokenize(const Tokenizer* tokenizer,
                                       const std::string& text);

// At most a million tokens and 1 MiB of text, each token below V. INVALID_ARGUMENT
// names the field "tokens".
absl::StatusOr<DetokenizedText> Detokenize(const Tokenizer* tokenizer,
                                           const std::vector<int32_t>& tokens);

}  // namespace mnemon
