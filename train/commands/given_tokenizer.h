// SPDX-License-Identifier: MIT
// The tokenizer that a user gives to a model trained elsewhere, and its configuration.
#pragma once

#include <cstdint>
#include <memory>
#include <string>

#include "absl/status/statusor.h"
#include "base/command_line.h"
#include "model/text/tokenizer.h"

namespace mnemon {

// Paths; at most one is not empty.
struct GivenTokenizer {
  std::string tokenizer;  // as of OpenTokenizer
  std::string chars;      // a text, whose characters are sorted by code point
  std::string alphabet;   // the characters in the order of their ids
  std::string config;     // a tokenizer_config.json; may be given beside any of them

  bool given() const { return !(tokenizer + chars + alphabet + config).empty(); }
};

// --tokenizer, --chars, --alphabet and --tokenizer-config; `given` must outlive Run.
void AddTokenizerFlags(Command& command, GivenTokenizer& given);

// Null when none is given. Line ends of the text `chars` are read as Python reads them,
// CR and CR LF as newlines, because those models were trained on texts so read.
// INVALID_ARGUMENT names the flag and the file, and both sizes where the tokenizer has
// not `vocab` ids.
absl::StatusOr<std::unique_ptr<Tokenizer>> ReadTokenizer(const GivenTokenizer& given,
                                                         int64_t vocab);

// The bytes of the tokenizer_config.json; empty when none is given. INVALID_ARGUMENT
// names the file.
absl::StatusOr<std::string> ReadTokenizerConfig(const GivenTokenizer& given);

}  // namespace mnemon
