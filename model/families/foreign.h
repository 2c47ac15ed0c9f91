// SPDX-License-Identifier: MIT
// Families of configuration files of Hugging Face, by their `model_type`: each is a way
// from the file to a description, and from the tensors of the file to ours.
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
  bool transposed = false;     // of a matrix
  // Behind the transposition.
  int64_t first = 0, rows = 0;
};

// One of our tensors: the rows of its sources one below the other. Nothing is rounded.
struct TensorRecipe {
  std::string ours;
  std::vector<int64_t> shape;
  std::vector<TensorSource> from;

  // Of a tensor that a file has as it is.
  static TensorRecipe As(std::string name, const TensorShape& ours) {
    return {ours.name,
            ours.shape,
            {{std::move(name), ours.shape, false, 0, ours.shape[0]}}};
  }
};

struct ForeignModel {
  std::string architecture;  // the model_type
  ModelDescription description;
  std::vector<TensorRecipe> tensors;  // those of TensorsOf, in their order
  // What names of other tensors of the file end with that no model needs.
  std::vector<std::string> ignored;
  // Which the names in a file may lack, as "transformer.", or all of them have.
  std::string prefix;
};

struct ForeignFamily {
  std::string_view model_type;
  std::string_view summary;  // one line
  // Faults of the file are noted there.
  ForeignModel (*read)(ForeignConfig& config);
};

// What many files have, under names of their own. A number of layers is such that it
// can be counted to.
int64_t ReadLayers(ForeignConfig& config, std::string_view key);
Activation ReadActivation(ForeignConfig& config, std::string_view key,
                          std::string otherwise);

// The table, in foreign.cc.
std::span<const ForeignFamily> ForeignFamilies();

// `json`: a config.json with a model_type. NOT_FOUND lists the known ones;
// INVALID_ARGUMENT lists every key that is missing or not supported, or what
// CheckDescription finds.
absl::StatusOr<ForeignModel> ReadForeignModel(std::string_view json);

}  // namespace mnemon
