// SPDX-License-Identifier: MIT
// Families of models: each maps a configuration file to a description. Code that
// computes a model uses its description, not the name of its architecture.
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
  // User's name of this architecture with projection: shared; empty: none.
  std::string_view shared_name = {};
  // Checks beyond ValidateConfig: fields and values that this architecture supports.
  absl::Status (*validate)(const ModelConfig& config);
  // REQUIRES: validated.
  ModelDescription (*describe)(const ModelConfig& config);
  // Configuration used for measurements, except for sizes (bench/kernels/model_size.h).
  ModelConfig (*usual)();
  // Configuration of its reference experiment.
  ModelConfig (*reference)();
  // Tiny configurations that together reach every branch of the architecture, for
  // property tests.
  std::vector<ModelConfig> (*variants)();

  // A config.json of Hugging Face for the same model, with tensors of the same numbers;
  // null: none exists.
  std::string (*as_foreign)(const ModelConfig& config) = nullptr;

  // Whether its models generate token by token; the same for all models of a family.
  bool autoregressive() const { return !describe(variants()[0]).whole_sequences; }
};

// The table, in families.cc.
std::span<const Family> Families();

// NOT_FOUND lists the known names.
absl::StatusOr<const Family*> FindFamily(std::string_view name);

// The description of the model that `config` defines. INVALID_ARGUMENT lists all faults
// of the configuration in one error, or the faults found by CheckDescription.
absl::StatusOr<ModelDescription> DescribeModel(const ModelConfig& config);

// Names as users type them: the table's in order, each followed by its shared_name.
std::vector<std::string> TypedNames();
// Applies such a name. NOT_FOUND lists the known names.
absl::Status SetArchitecture(ModelConfig& config, std::string_view name);
// Such a name for a configuration.
std::string TypedNameOf(const ModelConfig& config);

}  // namespace mnemon
