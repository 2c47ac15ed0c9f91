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
  // Tiny configurations that together reach every branch of the architecture. Property
  // tests run over them.
  std::vector<ModelConfig> (*variants)();
};

std::span<const ArchitectureEntry> Architectures();

// NOT_FOUND lists the known names.
absl::StatusOr<const ArchitectureEntry*> FindArchitecture(std::string_view name);

// ValidateConfig and the architecture's own checks, in one error that lists all.
absl::Status ValidateModel(const ModelConfig& config);

// Validates, then makes the model with uninitialised weights. RESOURCE_EXHAUSTED when
// memory does not suffice.
absl::StatusOr<std::unique_ptr<Model>> MakeModel(const ModelConfig& config);

// The decoder that serves `model`: its own step form where there is one, else the
// default. `model` must outlive it and keep its weights.
absl::StatusOr<std::unique_ptr<Decoder>> MakeDecoder(const Model& model);

// Applies an architecture name as users type it: a registry name, or feedback_shared
// for feedback with projection: shared. NOT_FOUND lists the known names.
absl::Status SetArchitecture(ModelConfig& config, std::string_view name);

}  // namespace mnemon
