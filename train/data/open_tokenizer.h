// SPDX-License-Identifier: MIT
#pragma once

#include <memory>
#include <string>

#include "absl/status/statusor.h"
#include "model/text/tokenizer.h"

namespace mnemon {

// The tokenizer at `path`: a tokenizer.json, a directory with one, a GGUF file, or a
// run, as of ReadCheckpoint. Errors name the file and are those of ReadFile,
// ReadForeignTexts, ReadGgufTexts, ReadCheckpoint and ParseTokenizer;
// FAILED_PRECONDITION where there is none, and of which other format there is one.
absl::StatusOr<std::unique_ptr<Tokenizer>> OpenTokenizer(const std::string& path);

}  // namespace mnemon
