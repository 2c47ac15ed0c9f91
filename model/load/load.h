// SPDX-License-Identifier: MIT
// From a checkpoint directory to something that runs: used by every binary.
#pragma once

#include <memory>
#include <string>

#include <c10/core/Device.h>

#include "absl/status/statusor.h"
#include "model/config/config.h"
#include "model/decoder/decoder.h"
#include "model/sequence/model.h"
#include "model/text/tokenizer.h"

namespace mnemon {

struct LoadedModel {
  ModelConfig config;
  std::string model_id;  // SHA-256 over weights, config, tokenizer
  std::unique_ptr<Model> model;
  std::unique_ptr<Tokenizer> tokenizer;  // null: the checkpoint has none, only ids work
};

struct LoadOptions {
  // Refuse weights that hold NaN or infinity.
  bool refuse_non_finite = true;
  // Where the weights go.
  at::Device device = at::kCPU;
};

// Reads and checks the whole checkpoint in `dir` (which may be a link such as
// run/last). Errors are INVALID_ARGUMENT, NOT_FOUND, FAILED_PRECONDITION or DATA_LOSS
// and name the file and every fault; nothing is half-loaded and nothing of a declared
// size is allocated before it was checked.
absl::StatusOr<LoadedModel> LoadCheckpoint(const std::string& dir,
                                           const LoadOptions& options = {});

}  // namespace mnemon
