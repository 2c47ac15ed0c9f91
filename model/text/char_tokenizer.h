// SPDX-License-Identifier: MIT
// The character tokenizer: one id per Unicode code point.
#pragma once

#include <memory>
#include <vector>

#include "absl/status/statusor.h"
#include "model/text/tokenizer.h"

namespace mnemon {

// Id i stands for characters[i]; `unknown` is what Encode does with others: kReplace
// puts the first of U+FFFD, "?" and " " that is one of them, and is an error as kRefuse
// where none is. REQUIRES: not empty, Unicode scalar values, all different; not
// kAsModel.
std::unique_ptr<Tokenizer> MakeCharTokenizerOf(
    const std::vector<char32_t>& characters,
    UnknownCharacters unknown = UnknownCharacters::kRefuse);

// The same characters with another treatment of others; null where `tokenizer` can
// encode every text. REQUIRES: not kAsModel.
std::unique_ptr<Tokenizer> WithUnknownCharacters(const Tokenizer& tokenizer,
                                                 UnknownCharacters unknown);

}  // namespace mnemon
