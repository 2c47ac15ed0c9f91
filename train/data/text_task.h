// SPDX-License-Identifier: MIT
// Next-token prediction on one text.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "train/data/config.h"
#include "train/data/task.h"

namespace mnemon {

struct TextParts {
  std::unique_ptr<Tokenizer> tokenizer;
  std::vector<int32_t> train;
  std::vector<int32_t> validation;
  std::string sha256;  // of the text
};

std::unique_ptr<Task> MakeTextTask(TextParts parts);

// Reads options.text and makes its tokenizer, or maps it if it is a token file; that
// file's tokenizer must be of the kind of options.tokenizer. The last part of the
// tokens is for validation. Errors name the file.
absl::StatusOr<std::unique_ptr<Task>> LoadTextTask(const DataOptions& options);

// Reads a text file of at most 4 GiB; `path` may be a link. INVALID_ARGUMENT for a
// token file.
absl::StatusOr<std::string> ReadText(const std::string& path);

}  // namespace mnemon
