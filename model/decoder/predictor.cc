// SPDX-License-Identifier: MIT
#include <cstdint>
#include <utility>

#include "base/error.h"
#include "base/saturating.h"
#include "base/status_macros.h"
#include "base/strings.h"
#include "model/decoder/decoder.h"

namespace mnemon {

absl::StatusOr<Predictor::Output> Predictor::Predict(Input input) {
  MNEMON_RETURN_IF_ERROR(CheckPredict(input, config(), max_positions()));
  MNEMON_ASSIGN_OR_RETURN(const std::unique_ptr<Prediction> prediction,
                          Begin(std::move(input)));
  for (bool done = false; !done;) {
    MNEMON_ASSIGN_OR_RETURN(done, prediction->Advance());
  }
  return prediction->TakeOutput();
}

int64_t PredictMultiplyAdds(const ModelConfig& config, int64_t batch, int64_t time,
                            AttentionMaps maps) {
  const Saturating width = config.d_model, rows = Saturating(batch) * time;
  // Of one row of one layer: four projections, two or three matrices of the
  // feed-forward sub-layer, scores and the sum over values.
  const Saturating projections = Saturating(4) * width * width;
  const Saturating feed_forward =
      Saturating(config.gated ? 3 : 2) * width * config.d_ff;
  const Saturating attention = Saturating(2) * width * time;
  // Maps of the notebook: two more projections and scores.
  const Saturating notebook = maps == AttentionMaps::kNotebook
                                  ? Saturating(2) * width * width + width * time
                                  : Saturating(0);
  const Saturating layer = projections + feed_forward + attention + notebook;
  const Saturating head = width * width + width * config.vocab;
  return (rows * (Saturating(config.layers) * layer + head)).value();
}

absl::Status CheckPredict(const Predictor::Input& input, const ModelConfig& config,
                          int64_t max_positions) {
  const int64_t count = static_cast<int64_t>(input.tokens.size());
  if (input.batch < 1 || count < input.batch || count % input.batch != 0) {
    return InvalidField("tokens",
                        StrCat(count, " tokens are no ", input.batch,
                               " sequences of the same length of at least 1"));
  }
  const int64_t time = count / input.batch;
  for (int64_t i = 0; i < count; ++i) {
    if (input.tokens[i] < 0 || input.tokens[i] >= config.vocab) {
      return InvalidField("tokens", StrCat("token ", input.tokens[i], " of sequence ",
                                           i / time, " at position ", i % time,
                                           " is not in 0..", config.vocab - 1));
    }
  }
  if (time > max_positions) {
    return MakeError(
        absl::StatusCode::kFailedPrecondition,
        StrCat(time, " tokens are beyond the model's limit of ", max_positions),
        {.reason = "CONTEXT_LIMIT", .field = "tokens"});
  }
  const int64_t given = static_cast<int64_t>(input.explicit_mask.size());
  const int64_t one = time * time;
  const bool fits = input.mask == PredictMask::kExplicit
                        ? given == one || given == input.batch * one
                        : given == 0;
  if (fits) return absl::OkStatus();
  return InvalidField("explicit_mask",
                      input.mask == PredictMask::kExplicit
                          ? StrCat("an explicit mask has ", one, " or ",
                                   input.batch * one, " bytes here, got ", given)
                          : StrCat("explicit_mask goes with the explicit mask only"));
}

}  // namespace mnemon
