// SPDX-License-Identifier: MIT
// The files of a checkpoint, read and checked, before a model is made of them.
#pragma once

#include <cstdint>
#include <future>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "model/compute/weights.h"
#include "model/description/description.h"
#include "model/families/config.h"
#include "model/io/checkpoint.h"
#include "model/io/safetensors.h"
#include "model/text/chat_template.h"
#include "model/text/tokenizer.h"

namespace mnemon {

struct ModelFiles {
  ModelConfig config;
  ModelDescription description;
  std::unique_ptr<Tokenizer> tokenizer;  // null: the checkpoint has none, only ids work
  ChatTemplate chat_template;
  bool int8 = false;                 // the matrices; else all weights are fp32
  std::vector<TensorShape> tensors;  // in the order of the architecture
  // These tensors and no others; the data may be on its way.
  Safetensors weights;
  // As CheckpointFiles::verified, and by option INVALID_ARGUMENT for bad weights: what
  // was made of the weights may be used when this gave OK.
  std::future<absl::StatusOr<VerifiedWeights>> verified;
  // As they are.
  std::string config_json;
  std::optional<std::string> tokenizer_json;
  std::optional<std::string> tokenizer_config_json;

  int64_t parameters() const;
};

// Reads and checks the checkpoint in `dir` (which may be a link such as run/last), but
// for what only `verified` can tell. Errors are those of ReadFile, INVALID_ARGUMENT,
// FAILED_PRECONDITION, DATA_LOSS, RESOURCE_EXHAUSTED or INTERNAL, and name the file or
// `dir`, and every fault; nothing of a declared size is allocated before it was
// checked.
absl::StatusOr<ModelFiles> ReadModelFiles(const std::string& dir,
                                          bool refuse_non_finite = true);

// Views of the weights in the order of the architecture's tensors, whose data must be
// waited for. `copies` keeps those whose bytes lie where no float may, and are there.
TensorViews ViewWeights(const ModelFiles& files,
                        std::vector<std::vector<float>>& copies);

}  // namespace mnemon
