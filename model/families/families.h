// SPDX-License-Identifier: MIT
// Families of models: each is a way from a configuration file to a description. What
// computes a model knows its description, not its architecture's name.
#pragma once

#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "model/description/description.h"
#include "model/families/config.h"

namespace mnemon {

// An architecture of our own configuration files (config.h).
struct Family {
  std::string_view name;
  std::string_view summary;  // one line
  // What users type for this architecture with projection: shared; empty: nothing.
  std::string_view shared_name = {};
  // Checks beyond ValidateConfig: which fields and values this architecture takes.
  absl::Status (*validate)(const ModelConfig& config);
  // REQUIRES: validated.
  ModelDescription (*describe)(const ModelConfig& config);
  // A model of this architecture as it is measured, but for its sizes
  // (bench/kernels/model_size.h).
  ModelConfig (*usual)();
  // That of its reference experiment.
  ModelConfig (*reference)();
  // Tiny configurations that together reach every branch of the architecture. Property
  // tests run over them.
  std::vector<ModelConfig> (*variants)();

  // A config.json of Hugging Face that describes the same model, with tensors of the
  // same numbers; null: there is none.
  std::string (*as_foreign)(const ModelConfig& config) = nullptr;

  // Whether its models generate token by token; all models of a family are of one kind.
  bool autoregressive() const { return !describe(variants()[0]).whole_sequences; }
};

// The table, in families.cc.
std::span<const Family> Families();

// NOT_FOUND lists the known names.
absl::StatusOr<const Family*> FindFamily(std::string_view name);

// The description of a model that its configuration defines. INVALID_ARGUMENT lists
// every fault of the configuration in one error, or what CheckDescription finds.
absl::StatusOr<ModelDescription> DescribeModel(const ModelConfig& config);

// Names as users type them: those of the table in its order, each followed by its
// shared_name.
std::vector<std::string> TypedNames();
// Applies such a name. NOT_FOUND lists the known ones.
absl::Status SetArchitecture(ModelConfig& config, std::string_view name);
// That of a configuration.
std::string TypedNameOf(const ModelConfig& config);

}  // namespace mnemon
