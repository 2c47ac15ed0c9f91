// SPDX-License-Identifier: MIT
#include "model/steps/encoder_predictor.h"

#include <cmath>
#include <string>
#include <utility>

#include "base/out_of_memory.h"
#include "base/saturating.h"
#include "model/steps/encoder_prediction.h"
#include "model/steps/step_parts.h"
#include "model/weights/tensor_names.h"

namespace mnemon {
namespace {

EncoderModel MakeEncoderModel(const ModelConfig& c, StepWeights& weights) {
  const LogitsOp logits = MakeLogits(c, weights);
  EncoderModel model{.config = c,
                     .embed = MakeEmbed(c, logits, weights),
                     .logits = logits,
                     .scale = 1.0f / std::sqrt(static_cast<float>(c.head_width())),
                     .slopes = MakeSlopes(c, weights),
                     .layers = {},
                     .head_in = {},
                     .logits_norm = {}};
  for (int64_t i = 0; i < c.layers; ++i) {
    const auto name = [i](const char* part) { return names::Layer(i, part); };
    model.layers.push_back(
        {.norm = weights.Norm(name(names::kAttnNorm)),
         .query_key_value = weights.Linear(
             {name(names::kQuery), name(names::kKey), name(names::kValue)}),
         .output = weights.Linear({name(names::kOutput)}, c.head_width()),
         .feed_forward = MakeFeedForward(c, i, weights)});
  }
  model.head_in = weights.Linear({names::kHeadIn});
  if (c.norm_logits) model.logits_norm = weights.Norm(names::kLogitsNorm);
  weights.Pack();
  return model;
}

class EncoderPredictor final : public Predictor {
 public:
  EncoderPredictor(const ModelConfig& config, const TensorViews& views,
                   const StepOptions& options)
      : numerics_id_(StepNumericsId(options)),
        workers_(options.pool->count()),
        weights_(config, views, options),
        model_(MakeEncoderModel(config, weights_)),
        team_(*options.operations, *options.pool) {}

  const ModelConfig& config() const override { return model_.config; }
  const std::string& numerics_id() const override { return numerics_id_; }
  int64_t weight_bytes() const override { return weights_.packed().bytes(); }
  int64_t max_positions() const override { return config().positions; }

  PredictCost Cost(const Input& input) const override {
    const int64_t time = static_cast<int64_t>(input.tokens.size()) / input.batch;
    const EncoderShape shape(config(), workers_, input.batch, time, input.maps);
    const Saturating held =
        Saturating(sizeof(EncoderPrediction)) + EncoderBuffers::Bytes(config(), shape) +
        input.tokens.size() * sizeof(int32_t) + input.explicit_mask.size();
    return {
        .multiply_adds = PredictMultiplyAdds(config(), input.batch, time, input.maps),
        .peak_bytes = held.value()};
  }

  absl::StatusOr<std::unique_ptr<Prediction>> Begin(Input input) override {
    return CatchOutOfMemory("this prediction",
                            [&]() -> absl::StatusOr<std::unique_ptr<Prediction>> {
                              return std::make_unique<EncoderPrediction>(
                                  model_, team_, workers_, std::move(input));
                            });
  }

 private:
  const std::string numerics_id_;
  const int workers_;
  StepWeights weights_;
  const EncoderModel model_;
  CpuTeam team_;
};

}  // namespace

std::unique_ptr<Predictor> MakeEncoderPredictor(const ModelConfig& config,
                                                const TensorViews& views,
                                                const StepOptions& options) {
  return std::make_unique<EncoderPredictor>(config, views, options);
}

}  // namespace mnemon
