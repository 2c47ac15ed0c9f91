// SPDX-License-Identifier: MIT
// The tokenizer that a user supplies for a model trained elsewhere.
#pragma once

#include <cstdint>
#include <memory>
#include <string>

#include "absl/status/statusor.h"
#include "base/process/command_line.h"
#include "model/text/tokenizer.h"

namespace mnemon {

// Paths. At most one of the first three is set.
struct GivenTokenizer {
  std::string tokenizer;  // as in OpenTokenizer
  std::string chars;      // a text; its characters sorted by code point are the tokens
  std::string alphabet;   // the characters in the order of their ids
  std::string config;     // a tokenizer_config.json; may be set with any of them

  bool given() const { return !(tokenizer + chars + alphabet + config).empty(); }
};

// Adds --tokenizer, --chars, --alphabet and --tokenizer-config. `given` must outlive
// CommandLine::Run.
void AddTokenizerFlags(Command& command, GivenTokenizer& given);

// Makes the tokenizer; null if none is given. CR and CR LF in the text `chars` are read
// as newlines, as in Python, because the models were trained on texts read in that way.
// INVALID_ARGUMENT names the flag and the file, and both sizes if the tokenizer does
// not have `vocab` ids.
absl::StatusOr<std::unique_ptr<Tokenizer>> ReadTokenizer(const GivenTokenizer& given,
                                                         int64_t vocab);

// The content of the tokenizer_config.json; empty if none is given. INVALID_ARGUMENT
// names the file.
absl::StatusOr<std::string> ReadTokenizerConfig(const GivenTokenizer& given);

}  // namespace mnemon
