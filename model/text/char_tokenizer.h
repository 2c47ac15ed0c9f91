// SPDX-License-Identifier: MIT
// The character tokenizer: one id per Unicode code point.
#pragma once

#include <memory>
#include <vector>

#include "absl/status/statusor.h"
#include "model/text/tokenizer.h"

namespace mnemon {

// Id i stands for characters[i]. `unknown` is how Encode treats other characters:
// kReplace uses the first of U+FFFD, "?" and " " that is in the list, and if none is,
// is an error like kRefuse. REQUIRES: not empty, different Unicode scalar values; not
// kAsModel.
std::unique_ptr<Tokenizer> MakeCharTokenizerOf(
    const std::vector<char32_t>& characters,
    UnknownCharacters unknown = UnknownCharacters::kRefuse);

// The same characters with another treatment of unknown ones; null if `tokenizer` can
// encode every text. REQUIRES: not kAsModel.
std::unique_ptr<Tokenizer> WithUnknownCharacters(const Tokenizer& tokenizer,
                                                 UnknownCharacters unknown);

}  // namespace mnemon
