// SPDX-License-Identifier: MIT
#pragma once

#include <memory>
#include <string>

#include "absl/status/statusor.h"
#include "model/text/tokenizer.h"

namespace mnemon {

// Opens the tokenizer at `path`: a tokenizer.json, a directory with one, a GGUF file,
// or a run, as in ReadCheckpoint. Errors name the file and are those of ReadFile,
// ReadForeignTexts, ReadGgufTexts, ReadCheckpoint and ParseTokenizer.
// FAILED_PRECONDITION if there is none; it names a tokenizer of another format.
absl::StatusOr<std::unique_ptr<Tokenizer>> OpenTokenizer(const std::string& path);

}  // namespace mnemon
