// SPDX-License-Identifier: MIT
// Fast Weights Transformer, "Linear Transformers Are Secretly Fast Weight Programmers"
// (Schlag, Irie, Schmidhuber, 2021). Its fast weights read the raw residual stream:
// their norm is in the files and never applied. No positions.
#include "base/strings.h"
#include "model/families/families.h"
#include "model/families/field_check.h"
#include "model/families/frame.h"
#include "model/families/table.h"

namespace mnemon {
namespace {

absl::Status Validate(const ModelConfig& config) {
  FieldCheck check(config, {"nu", "feature_map", "update_rule", "normalise"});
  // For nu >= 2K products repeat.
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

ModelDescription Describe(const ModelConfig& c) {
  ModelDescription model = FrameOf(c);
  const FastWeights fast{
      .heads = c.heads,
      .width = c.head_width(),
      .rule = c.update_rule,
      .map = {.nu = c.nu, .elu = c.feature_map == FeatureMapKind::kElu},
      .normalised = c.normalise == Normalise::kZ};
  AddLayers(c, {.kind = Norm::Kind::kKept}, fast, model);
  return model;
}

ModelConfig Usual() { return {.architecture = "fast_weights"}; }

ModelConfig Reference() {
  return {.architecture = "fast_weights",
          .d_model = 512,
          .heads = 8,
          .layers = 6,
          .d_ff = 2048,
          .vocab = 65};
}

std::vector<ModelConfig> Variants() {
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

}  // namespace

Family FastWeightsFamily() {
  return {.name = "fast_weights",
          .summary = "fast weights with DPFP features: a state of constant size",
          .validate = Validate,
          .describe = Describe,
          .usual = Usual,
          .reference = Reference,
          .variants = Variants};
}

}  // namespace mnemon
