// SPDX-License-Identifier: MIT
// Next-token prediction on one text.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "model/text/tokenizer.h"
#include "train/config.h"

namespace mnemon {

struct TextTask {
  std::unique_ptr<Tokenizer> tokenizer;
  std::vector<int32_t> train;
  std::vector<int32_t> validation;
  std::string sha256;  // of the text
};

// Reads options.text, makes the tokenizer from it, and keeps the last part of the
// tokens for validation. Errors name the file.
absl::StatusOr<TextTask> LoadTextTask(const DataOptions& options);

}  // namespace mnemon
