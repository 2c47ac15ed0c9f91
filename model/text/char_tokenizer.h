// SPDX-License-Identifier: MIT
// The character tokenizer: one id per Unicode code point.
#pragma once

#include <memory>
#include <vector>

#include "absl/status/statusor.h"
#include "model/text/tokenizer.h"

namespace mnemon {

// Id i stands for characters[i]. REQUIRES: not empty, Unicode scalar values, all
// different.
std::unique_ptr<Tokenizer> MakeCharTokenizerOf(const std::vector<char32_t>& characters);

}  // namespace mnemon
