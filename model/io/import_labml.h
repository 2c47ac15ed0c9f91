// SPDX-License-Identifier: MIT
// Import of checkpoints of the reference implementations (labml_nn, and the attention
// notebook's encoder): a config.json of sizes and a safetensors file with the names of
// its state_dict.
#pragma once

#include <string>
#include <string_view>

#include "absl/status/statusor.h"
#include "model/families/config.h"
#include "model/io/safetensors.h"

namespace mnemon {

struct ImportedModel {
  ModelConfig config;
  std::string weights;  // image of model.safetensors, our names
};

// `config_json`: see model/families/labml.h. INVALID_ARGUMENT lists all tensors that
// are missing, left over or of the wrong shape, by their foreign names. convert_000:
// write a feedback model of seed_form 000 in the free form, with relative_bias S[r,h] =
// query_bias[h] . relative_key[r,h]; only valid for those.
absl::StatusOr<ImportedModel> ImportLabml(std::string_view config_json,
                                          const Safetensors& weights, bool convert_000);

}  // namespace mnemon
