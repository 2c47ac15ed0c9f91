// SPDX-License-Identifier: MIT
#include "model/program/encoder_predictor.h"

#include <string>
#include <utility>

#include "base/out_of_memory.h"
#include "base/saturating.h"
#include "model/compute/tensor_names.h"
#include "model/operations/step_numerics.h"
#include "model/program/encoder_prediction.h"
#include "model/program/step/step_program.h"

namespace mnemon {
namespace {

EncoderAttention MakeEncoderAttention(const Attention& settings,
                                      const std::string& base, const NormView& norm,
                                      StepWeights& weights) {
  return {.settings = settings,
          .norm = norm,
          .query_key_value =
              weights.Linear({base + ".query", base + ".key", base + ".value"}),
          .output = weights.Linear({base + ".output"}, {.slice = settings.width}),
          .scale = ScaleOf(settings),
          .slopes = MakeSlopes(settings, weights)};
}

EncoderModel MakeEncoderModel(const ModelDescription& model, StepWeights& weights) {
  const LogitsOp logits = MakeLogits(model.head, weights);
  EncoderModel made{.description = model,
                    .embed = MakeEmbed(model.embedding, model.head, logits, model.width,
                                       model.context, weights),
                    .logits = logits,
                    .phases = {},
                    .head_in = {},
                    .logits_norm = {}};
  for (size_t i = 0; i < model.layers.size(); ++i) {
    for (const SubLayer& sub : model.layers[i]) {
      const std::string base = BaseOf(i, sub);
      const NormView norm = weights.Norm(base + ".norm", sub.norm);
      const auto* attention = std::get_if<Attention>(&sub.block);
      if (attention != nullptr || made.phases.empty()) made.phases.emplace_back();
      if (attention != nullptr) {
        made.phases.back().attention =
            MakeEncoderAttention(*attention, base, norm, weights);
      } else {
        made.phases.back().feeds.push_back(
            MakeFeedForward(std::get<FeedForward>(sub.block), base, norm, weights));
      }
    }
  }
  made.head_in = weights.Linear({names::kHeadIn});
  if (model.head.classifier->norm_logits) {
    made.logits_norm = weights.Norm(names::kLogitsNorm);
  }
  weights.Pack();
  return made;
}

class EncoderPredictor final : public Predictor {
 public:
  EncoderPredictor(const ModelDescription& model, const TensorViews& views,
                   const StepOptions& options)
      : numerics_id_(StepNumericsId(options)),
        workers_(options.pool->count()),
        weights_(views, options),
        model_(MakeEncoderModel(model, weights_)),
        team_(*options.operations, *options.pool) {}

  const ModelDescription& model() const override { return model_.description; }
  const std::string& numerics_id() const override { return numerics_id_; }
  int64_t weight_bytes() const override { return weights_.packed().bytes(); }
  int64_t max_positions() const override { return model().context; }

  PredictCost Cost(const Input& input) const override {
    const int64_t time = static_cast<int64_t>(input.tokens.size()) / input.batch;
    const EncoderShape shape(model(), workers_, input.batch, time, input.maps);
    const Saturating held =
        Saturating(sizeof(EncoderPrediction)) + EncoderBuffers::Bytes(model(), shape) +
        input.tokens.size() * sizeof(int32_t) + input.explicit_mask.size();
    return {
        .multiply_adds = PredictMultiplyAdds(model(), input.batch, time, input.maps),
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

std::unique_ptr<Predictor> MakeEncoderPredictor(const ModelDescription& model,
                                                const TensorViews& views,
                                                const StepOptions& options) {
  return std::make_unique<EncoderPredictor>(model, views, options);
}

}  // namespace mnemon
