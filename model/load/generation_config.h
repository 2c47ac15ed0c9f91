// SPDX-License-Identifier: MIT
// generation_config.json of Hugging Face, and the same settings in config.json.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "absl/status/status.h"
#include "model/sampling/generation_defaults.h"

namespace mnemon {

// Replaces the defaults for which `json`, the content of `file`, has a value:
// eos_token_id, one id or a list; temperature, top_k, top_p, min_p, typical_p and
// repetition_penalty; do_sample, of which false means greedy. Other keys are ignored.
// INVALID_ARGUMENT names `file`, key and value: a token that is not in 0 .. vocab-1, a
// number out of range.
absl::Status ReadGenerationConfig(std::string_view json, const std::string& file,
                                  int64_t vocab, GenerationDefaults& to);

}  // namespace mnemon
