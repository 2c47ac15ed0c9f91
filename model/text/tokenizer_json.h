// SPDX-License-Identifier: MIT
// The outer schema of tokenizer.json.
#pragma once

#include <string>

#include "nlohmann/json_fwd.hpp"

namespace mnemon {

// tokenizer.json in the outer schema of Hugging Face, with only a model.
std::string TokenizerJson(const nlohmann::json& model);

}  // namespace mnemon
