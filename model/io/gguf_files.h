// SPDX-License-Identifier: MIT
// A GGUF file in the form of a Hugging Face directory: see gguf_model.h.
#pragma once

#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "model/io/foreign_files.h"

namespace mnemon {

// Whether `path` leads to a regular file that begins like a GGUF file.
bool IsGgufFile(const std::string& path);

// The numbers stay in the file, which is mapped, and are decoded when read: those in
// blocks to float32, others unchanged. The model_id is that of a model.safetensors with
// these numbers. Errors name the file: those of ParseGguf and ReadGgufModel,
// RESOURCE_EXHAUSTED. An unsupported tokenizer is left out, and the reason is returned.
// The file must not be truncated while it is read.
absl::StatusOr<ForeignFiles> ReadGgufFiles(const std::string& path);

// Only the tokenizer and the chat template, of any architecture: no `config_json`, no
// `weights`, no `verified`.
absl::StatusOr<ForeignFiles> ReadGgufTexts(const std::string& path);

// Writes a directory at `dir`, whole or not at all. Numbers become bfloat16 if any
// tensor of the file is in blocks, else stay unchanged; they are not checked.
// ALREADY_EXISTS if `dir` exists; errors of ReadGgufFiles and WriteDirectoryDurably.
absl::Status WriteGgufAsDirectory(const std::string& path, const std::string& dir);

}  // namespace mnemon
