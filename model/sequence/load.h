// SPDX-License-Identifier: MIT
// Loading of a model directory into its sequence form, or for serving, in a program
// that links libtorch.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>

#include <c10/core/Device.h>

#include "absl/status/statusor.h"
#include "model/families/config.h"
#include "model/load/load.h"
#include "model/sequence/model.h"
#include "model/text/tokenizer.h"

namespace mnemon {

struct LoadedModel {
  std::optional<ModelConfig> config;  // none: another project's
  std::string architecture;           // or the model_type
  ModelDescription description;
  std::string model_id;  // see docs/checkpoint_format.md
  std::unique_ptr<Model> model;
  std::unique_ptr<Tokenizer> tokenizer;  // null: the checkpoint has none, only ids work
};

struct LoadOptions {
  // Refuse weights that hold NaN or infinity.
  bool refuse_non_finite = true;
  // Device for the weights.
  at::Device device = at::kCPU;
};

// Errors of ReadModelFiles, FAILED_PRECONDITION for int8 weights, RESOURCE_EXHAUSTED;
// nothing is half-loaded.
absl::StatusOr<LoadedModel> LoadCheckpoint(const std::string& dir,
                                           const LoadOptions& options = {});

// Like LoadServedModel, but the default decoder, if it serves, is linked into this
// program and runs on `device`. May throw c10::Error.
absl::StatusOr<ServedModel> LoadStepForm(const std::string& dir, at::Device device,
                                         const DecoderOptions& options,
                                         std::optional<int64_t> max_context = {});

}  // namespace mnemon
