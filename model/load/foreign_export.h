// SPDX-License-Identifier: MIT
// The way back: a model as a directory of Hugging Face's libraries.
#pragma once

#include <string>

#include "absl/status/status.h"

namespace mnemon {

// Writes the model at `path`, which ReadModelFiles reads, as directory `dir`, which
// must not be there: config.json, model.safetensors or shards of it with their index,
// tokenizer.json, and, where `path` has them, the other files that such a directory may
// have. Of a directory of Hugging Face all tensors stay byte for byte as they are; of a
// GGUF file they become what `import` writes. A model of ours must be one that a
// model_type describes (a llama): its tensors are renamed, transposed and cut as that
// needs, and never rounded; INVALID_ARGUMENT names another architecture, and int8.
// Errors are those of ReadModelFiles, of its verification, and of WriteFileDurably.
absl::Status ExportToHuggingFace(const std::string& path, const std::string& dir);

}  // namespace mnemon
