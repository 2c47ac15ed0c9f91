// SPDX-License-Identifier: MIT
// Configuration files and names of tensors of labml_nn's TransformerXL,
// FeedbackTransformer, FastWeightsAttentionTransformer and plain autoregressive
// Transformer, and of the attention notebook's TransformerPredictor.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/statusor.h"
#include "model/families/config.h"

namespace mnemon {

// A tensor's name in another project and in ours.
struct RenamedTensor {
  std::string foreign, ours;
  std::vector<int64_t> shape;
};

struct LabmlModel {
  ModelConfig config;
  std::vector<RenamedTensor> tensors;  // in the order of ours
  // Sinusoids that the file has as a buffer and that are computed here; no name: none.
  struct {
    std::string name;
    std::vector<int64_t> shape;
  } sinusoid;
};

// `config_json`: keys architecture (feedback, feedback_kv, fast_weights,
// transformer_xl, transformer, encoder), seed_form, d_model, heads, layers, ff, vocab,
// nu, mem_len, positions, dropout, mask (encoder: causal, or absent); others are
// ignored. `shape_of` returns the shape of a tensor of the file, or null if there is
// none. INVALID_ARGUMENT names all bad keys.
absl::StatusOr<LabmlModel> ReadLabmlModel(
    std::string_view config_json,
    const std::function<const std::vector<int64_t>*(std::string_view)>& shape_of);

}  // namespace mnemon
