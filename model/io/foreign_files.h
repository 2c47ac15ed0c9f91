// SPDX-License-Identifier: MIT
// A model directory of Hugging Face's libraries: config.json with a model_type,
// model.safetensors or the files named in model.safetensors.index.json, and, all
// optional, generation_config.json, tokenizer.json, tokenizer_config.json and
// chat_template.jinja. Files may be links, as in the hub's cache, where
// snapshots/REVISION/x leads to ../../blobs/HASH: they are followed within the model's
// folder and refused beyond it.
#pragma once

#include <future>
#include <optional>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "model/io/checkpoint.h"
#include "model/io/weight_files.h"

namespace mnemon {

// The files, before a model is made of them.
struct ForeignFiles {
  std::string config_json;
  std::optional<std::string> generation_config_json;
  std::optional<std::string> tokenizer_json;
  std::optional<std::string> tokenizer_config_json;
  std::optional<std::string> chat_template_jinja;
  std::optional<std::string> chat_template_json;
  absl::Status
      no_tokenizer;  // why there is no tokenizer_json, where there might be one
  // See CheckpointFiles::weights.
  WeightFiles weights;
  // See CheckpointFiles::verified; such directories have no manifest. The model_id is
  // SHA-256 over the hashes of weights, config.json and tokenizer.json.
  std::future<absl::StatusOr<VerifiedWeights>> verified;
};

// The directory of a model: `given`, or, for a model's folder in the hub's cache, the
// snapshot that refs/main names. Nothing if config.json cannot be read or has no
// model_type.
std::optional<std::string> FindForeignDirectory(const std::string& given);

// Reads a directory found by FindForeignDirectory. Errors name the file: those of
// ReadFile, CheckFileKind and ExplainMissing, INVALID_ARGUMENT for a link that leaves
// the model's folder and for a name in the index that is not a plain file name,
// RESOURCE_EXHAUSTED. Declared sizes are checked before anything is allocated.
absl::StatusOr<ForeignFiles> ReadForeignFiles(const std::string& dir);

// The same without reading the weights: no `weights`, no `verified`.
absl::StatusOr<ForeignFiles> ReadForeignTexts(const std::string& dir);

}  // namespace mnemon
