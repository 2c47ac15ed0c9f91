// SPDX-License-Identifier: MIT
// Families of Hugging Face configuration files, by their `model_type`: each maps the
// file to a description, and the tensors of the file to ours.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"
#include "model/description/description.h"
#include "model/families/foreign_config.h"

namespace mnemon {

// Rows of a tensor of the file, which may be stored transposed.
struct TensorSource {
  std::string name;
  std::vector<int64_t> shape;  // in the file
  bool transposed = false;     // the matrix is stored transposed
  // Rows after the transposition.
  int64_t first = 0, rows = 0;
};

// One of our tensors: the rows of its sources, concatenated. No number is rounded.
struct TensorRecipe {
  std::string ours;
  std::vector<int64_t> shape;
  std::vector<TensorSource> from;

  // For a tensor that a file has unchanged.
  static TensorRecipe As(std::string name, const TensorShape& ours) {
    return {ours.name,
            ours.shape,
            {{std::move(name), ours.shape, false, 0, ours.shape[0]}}};
  }
};

struct ForeignModel {
  std::string architecture;  // the model_type
  ModelDescription description;
  std::vector<TensorRecipe> tensors;  // tensors of TensorsOf, in order
  // Suffixes of names of other tensors in the file, which no model needs.
  std::vector<std::string> ignored;
  // Prefix of names that either all names in a file have or none, such as
  // "transformer.".
  std::string prefix;
};

struct ForeignFamily {
  std::string_view model_type;
  std::string_view summary;  // one line
  // Notes faults of the file in `config`.
  ForeignModel (*read)(ForeignConfig& config);
};

// Settings that many files have under different names. The number of layers is bounded
// to a countable size.
int64_t ReadLayers(ForeignConfig& config, std::string_view key);
Activation ReadActivation(ForeignConfig& config, std::string_view key,
                          std::string otherwise);

// The table, in foreign.cc.
std::span<const ForeignFamily> ForeignFamilies();

// `json`: a config.json with a model_type. NOT_FOUND lists the known ones;
// INVALID_ARGUMENT lists every key that is missing or not supported, or the faults
// found by CheckDescription.
absl::StatusOr<ForeignModel> ReadForeignModel(std::string_view json);

}  // namespace mnemon
