// SPDX-License-Identifier: MIT
// Export of a model as a directory of Hugging Face's libraries.
#pragma once

#include <string>

#include "absl/status/status.h"

namespace mnemon {

// Writes the model at `path`, which ReadModelFiles reads, as directory `dir`, which
// must not exist: config.json, model.safetensors or shards of it with their index,
// tokenizer.json and, if `path` has them, the other files that such a directory may
// have. All tensors of a Hugging Face directory stay the same byte for byte; those of a
// GGUF file become what `import` writes. A model of ours must be one that a model_type
// describes (a llama): its tensors are renamed, transposed and cut as needed, and never
// rounded; INVALID_ARGUMENT names another architecture, and int8. Errors of
// ReadModelFiles, of its verification, and of WriteFileDurably.
absl::Status ExportToHuggingFace(const std::string& path, const std::string& dir);

}  // namespace mnemon
