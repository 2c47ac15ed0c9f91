// SPDX-License-Identifier: MIT
// A GGUF file as the directory of Hugging Face that it stands for: see gguf_model.h.
#pragma once

#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "model/io/foreign_files.h"

namespace mnemon {

// Whether `path` leads to a regular file that begins as GGUF files do.
bool IsGgufFile(const std::string& path);

// Its numbers stay in the file, which is mapped, and are decoded while they are read:
// as float32 what is stored in blocks, all others as they are. As of model.safetensors
// that holds these numbers is the model_id. Errors name the file: those of ParseGguf
// and ReadGgufModel, RESOURCE_EXHAUSTED. A tokenizer that is not supported is none, and
// why is told. While the file is read, it must not be cut short.
absl::StatusOr<ForeignFiles> ReadGgufFiles(const std::string& path);

// The tokenizer and the chat template alone, of any architecture: no `config_json`, no
// `weights`, no `verified`.
absl::StatusOr<ForeignFiles> ReadGgufTexts(const std::string& path);

// Writes them as a directory at `dir`, whole or not at all, with numbers as bfloat16
// where some of the file are in blocks, else as they are. ALREADY_EXISTS where
// something is at `dir`; errors as of ReadGgufFiles and WriteDirectoryDurably. Of the
// numbers nothing is checked.
absl::Status WriteGgufAsDirectory(const std::string& path, const std::string& dir);

}  // namespace mnemon
