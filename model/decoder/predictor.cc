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
  MNEMON_RETURN_IF_ERROR(CheckPredict(input, model().vocab, max_positions()));
  MNEMON_ASSIGN_OR_RETURN(const std::unique_ptr<Prediction> prediction,
                          Begin(std::move(input)));
  for (bool done = false; !done;) {
    MNEMON_ASSIGN_OR_RETURN(done, prediction->Advance());
  }
  return prediction->TakeOutput();
}

int64_t PredictMultiplyAdds(const ModelDescription& model, int64_t batch, int64_t time,
                            AttentionMaps maps) {
  const Saturating width = model.width, rows = Saturating(batch) * time;
  // Cost of one row.
  Saturating row = width * width + width * model.vocab;
  for (const std::vector<SubLayer>& layer : model.layers) {
    for (const SubLayer& sub : layer) {
      if (const auto* feed = std::get_if<FeedForward>(&sub.block)) {
        row += Saturating(feed->gated ? 3 : 2) * width * feed->hidden;
      } else if (const auto* attention = std::get_if<Attention>(&sub.block)) {
        // Four projections, scores and the weighted sum of values.
        const Saturating all = Saturating(attention->heads) * attention->width;
        row += Saturating(4) * width * all + Saturating(2) * all * time;
        // Maps of the notebook: two more projections and scores.
        if (maps == AttentionMaps::kNotebook) {
          row += Saturating(2) * width * all + all * time;
        }
      }
    }
  }
  return (rows * row).value();
}

absl::Status CheckPredict(const Predictor::Input& input, int64_t vocab,
                          int64_t max_positions) {
  const int64_t count = static_cast<int64_t>(input.tokens.size());
  if (input.batch < 1 || count < input.batch || count % input.batch != 0) {
    return InvalidField("tokens",
                        StrCat(count, " tokens are no ", input.batch,
                               " sequences of the same length of at least 1"));
  }
  const int64_t time = count / input.batch;
  for (int64_t i = 0; i < count; ++i) {
    if (input.tokens[i] < 0 || input.tokens[i] >= vocab) {
      return InvalidField(
          "tokens", StrCat("token ", input.tokens[i], " of sequence ", i / time,
                           " at position ", i % time, " is not in 0..", vocab - 1));
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
