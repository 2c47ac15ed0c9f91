// SPDX-License-Identifier: MIT
#include <string>

#include "base/strings.h"
#include "model/steps/fast_weights_step.h"
#include "model/steps/field_check.h"
#include "model/steps/tensor_list.h"
#include "model/weights/tensor_names.h"

namespace mnemon {

absl::Status ValidateFastWeights(const ModelConfig& config) {
  FieldCheck check(config, {"nu", "feature_map", "update_rule", "normalise"});
  // From 2K on products come twice.
  const int64_t most = config.heads > 0 ? 2 * config.head_width() - 1 : config.nu;
  check.Require(
      config.nu >= 1 && config.nu <= most, "nu",
      StrCat("from 1 to ", most, ", below twice the width of a head, not ", config.nu));
  if (config.feature_map == FeatureMapKind::kElu) {
    check.Require(config.nu == 1, "nu",
                  "1 where feature_map is elu, which has no order");
    check.Require(config.heads == 0 || config.head_width() % 2 == 0, "d_model",
                  "such that the width of a head is even where feature_map is elu");
  }
  return check.status();
}

std::vector<TensorShape> FastWeightsTensors(const ModelConfig& c) {
  TensorList list(c);
  list.Embedding();
  for (int64_t i = 0; i < c.layers; ++i) {
    list.Norm(list.Layer(i, names::kAttnNorm), c.d_model);
    for (const char* part : {names::kQuery, names::kKey, names::kValue}) {
      list.Matrix(list.Layer(i, part), c.d_model, c.d_model);
    }
    if (c.update_rule == UpdateRule::kDelta) {
      list.Matrix(list.Layer(i, names::kGate), c.heads, c.d_model);
    }
    list.Linear(list.Layer(i, names::kOutput), c.d_model, c.d_model);
    list.FeedForward(i);
  }
  list.Head();
  return list.Take();
}

StateSpec FastWeightsCarry(const ModelConfig& c) {
  const int64_t features = c.features();
  StateSpec spec;
  for (int64_t i = 0; i < c.layers; ++i) {
    const std::string layer = "layer" + std::to_string(i);
    spec.entries.push_back(
        {.name = layer + ".w", .shape = {c.heads, c.head_width(), features}});
    if (c.normalise == Normalise::kZ) {
      spec.entries.push_back({.name = layer + ".z", .shape = {c.heads, features}});
    }
  }
  return spec;
}

std::vector<ModelConfig> FastWeightsVariants() {
  const auto variant = [](int64_t width, int64_t nu, UpdateRule rule,
                          Normalise normalise,
                          FeatureMapKind map = FeatureMapKind::kDpfp) {
    return ModelConfig{.architecture = "fast_weights",
                       .d_model = width,
                       .heads = 2,
                       .layers = 2,
                       .d_ff = 12,
                       .vocab = 7,
                       .feature_map = map,
                       .nu = nu,
                       .update_rule = rule,
                       .normalise = normalise,
                       .dropout = 0.2};
  };
  return {variant(12, 1, UpdateRule::kDelta, Normalise::kNone),
          variant(10, 3, UpdateRule::kDelta, Normalise::kZ),
          variant(12, 2, UpdateRule::kSum, Normalise::kNone),
          variant(8, 1, UpdateRule::kSum, Normalise::kZ),
          variant(12, 1, UpdateRule::kDelta, Normalise::kNone, FeatureMapKind::kElu),
          variant(20, 1, UpdateRule::kSum, Normalise::kZ, FeatureMapKind::kElu)};
}

}  // namespace mnemon
