// SPDX-License-Identifier: MIT
// A GGUF file as the Hugging Face files that describe the same model. Changes made by
// converters are undone (convert_hf_to_gguf.py of llama.cpp): names of tensors; the
// order of rows of queries and keys of llama; norms of gemma3, to whose weights 1 was
// added; matrices of gpt2, which were transposed.
#pragma once

#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "model/io/gguf.h"
#include "model/io/gguf_weights.h"

namespace mnemon {

struct GgufModel {
  std::string config_json;             // with a model_type of model/families
  std::string generation_config_json;  // with the ids that end a text
  std::vector<GgufSource> tensors;     // in the order of the file's table
};

// `image`: the file from which `file` was parsed. INVALID_ARGUMENT lists keys and
// tensors that are missing, unknown or not supported, by their names in the file;
// UNIMPLEMENTED names another architecture, a part of a split file, or a file that is
// not a model.
absl::StatusOr<GgufModel> ReadGgufModel(const Gguf& file, std::string_view image);

}  // namespace mnemon
