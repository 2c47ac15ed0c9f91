// SPDX-License-Identifier: MIT
// generation_config.json of Hugging Face, and what config.json says of the same.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "absl/status/status.h"
#include "model/sampling/generation_defaults.h"

namespace mnemon {

// Replaces what `json`, the content of `file`, has a value for: eos_token_id, one id or
// a list; temperature, top_k, top_p, min_p, typical_p and repetition_penalty;
// do_sample, whose false means greedy. Other keys are left alone. INVALID_ARGUMENT
// names `file`, key and value: a token that is not in 0 .. vocab-1, a number out of
// range.
absl::Status ReadGenerationConfig(std::string_view json, const std::string& file,
                                  int64_t vocab, GenerationDefaults& to);

}  // namespace mnemon
