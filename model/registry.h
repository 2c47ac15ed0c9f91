// SPDX-License-Identifier: MIT
// The architectures mnemon knows: an explicit table in registry.cc.
#pragma once

#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/statusor.h"
#include "model/config.h"
#include "model/decoder.h"
#include "model/model.h"

namespace mnemon {

struct ArchitectureEntry {
  std::string_view name;
  std::string_view summary;  // one line
  // What ValidateConfig cannot know: which fields and values this architecture takes.
  absl::Status (*validate)(const ModelConfig& config);
  // REQUIRES: validated. Weights are allocated, not initialised.
  std::unique_ptr<Model> (*make)(const ModelConfig& config);
  // What serves it: exactly one of the two is set. An autoregressive model has a
  // decoder (its own step form where there is one, else the default), an encoder a
  // predictor. The model must outlive it and keep its weights.
  std::unique_ptr<Decoder> (*make_decoder)(const Model& model);
  std::unique_ptr<Predictor> (*make_predictor)(const Model& model);
  // Tiny configurations that together reach every branch of the architecture. Property
  // tests run over them.
  std::vector<ModelConfig> (*variants)();

  bool autoregressive() const { return make_decoder != nullptr; }
};

std::span<const ArchitectureEntry> Architectures();

// NOT_FOUND lists the known names.
absl::StatusOr<const ArchitectureEntry*> FindArchitecture(std::string_view name);

// ValidateConfig and the architecture's own checks, in one error that lists all.
absl::Status ValidateModel(const ModelConfig& config);

// Validates, then makes the model with uninitialised weights. RESOURCE_EXHAUSTED when
// memory does not suffice.
absl::StatusOr<std::unique_ptr<Model>> MakeModel(const ModelConfig& config);

// The decoder or the predictor that serves `model`, which must outlive it and keep its
// weights. FAILED_PRECONDITION for a model of the other kind.
absl::StatusOr<std::unique_ptr<Decoder>> MakeDecoder(const Model& model);
absl::StatusOr<std::unique_ptr<Predictor>> MakePredictor(const Model& model);

// Applies an architecture name as users type it: a registry name, or feedback_shared
// for feedback with projection: shared. NOT_FOUND lists the known names.
absl::Status SetArchitecture(ModelConfig& config, std::string_view name);

}  // namespace mnemon
