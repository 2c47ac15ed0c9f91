// SPDX-License-Identifier: MIT
// Tokenizers of byte pair encoding, as the tokenizer.json of Hugging Face describes
// them: added tokens, normalizer, pre-tokenizer, model, post-processor, decoder.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include <nlohmann/json_fwd.hpp>

#include "absl/status/statusor.h"
#include "model/text/tokenizer.h"

namespace mnemon {

// `json`: a tokenizer.json with a model of type BPE; `text`: the same as in the file.
// `vocab`: ids of the model, of which the tokenizer may have fewer; ids without a token
// are no text. 0: as many as the tokenizer has. INVALID_ARGUMENT names the part that is
// wrong or not supported. All texts must be valid UTF-8.
absl::StatusOr<std::unique_ptr<Tokenizer>> MakeBpeTokenizer(const nlohmann::json& json,
                                                            std::string_view text,
                                                            int64_t vocab);

}  // namespace mnemon
