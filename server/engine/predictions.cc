// SPDX-License-Identifier: MIT
#include "server/engine/predictions.h"

#include <utility>

#include "base/error.h"
#include "base/status_macros.h"
#include "base/strings.h"
#include "server/requests/request_check.h"

namespace mnemon {
namespace {

// What one answer of Predict may hold: a client takes messages of 4 MiB unless it was
// made otherwise.
constexpr int64_t kMaxFloats = (int64_t{4} << 20) / sizeof(float) - 1024;

absl::Status CheckCost(const PredictCost& cost, const EngineOptions& options) {
  if (cost.multiply_adds <= options.predict.multiply_adds &&
      cost.peak_bytes <= options.predict.bytes) {
    return absl::OkStatus();
  }
  return InvalidField(
      "tokens",
      StrCat("the prediction takes ", cost.multiply_adds, " multiply-adds and ",
             cost.peak_bytes, " bytes, at most ", options.predict.multiply_adds,
             " and ", options.predict.bytes, ": send fewer or shorter sequences"));
}

// Heads of all blocks of attention.
int64_t HeadsOf(const ModelDescription& model) {
  int64_t heads = 0;
  for (const std::vector<SubLayer>& layer : model.layers) {
    for (const SubLayer& sub : layer) {
      if (const auto* found = std::get_if<Attention>(&sub.block)) heads += found->heads;
    }
  }
  return heads;
}

absl::Status CheckAnswer(int64_t tokens, const Predictor::Input& input,
                         const ModelDescription& model) {
  const int64_t time = tokens / input.batch;
  // Each factor was checked before, so no product overflows.
  int64_t floats = tokens * model.vocab;
  if (input.maps != AttentionMaps::kNone) floats += HeadsOf(model) * tokens * time;
  if (floats <= kMaxFloats) return absl::OkStatus();
  return InvalidField(
      "tokens", StrCat("the answer would hold ", floats, " numbers, at most ",
                       kMaxFloats, " fit into one message: send fewer sequences"));
}

}  // namespace

absl::StatusOr<std::function<void()>> StartPrediction(
    const EngineContext& context, const std::shared_ptr<PredictRunner>& runner,
    PredictRequest request, OnPredicted on_done) {
  const Predictor& predictor = *runner->model().predictor;
  Predictor::Input input{.tokens = std::move(request.tokens),
                         .batch = request.batch,
                         .mask = request.mask,
                         .explicit_mask = std::move(request.explicit_mask),
                         .maps = request.maps};
  MNEMON_RETURN_IF_ERROR(
      CheckPredict(input, predictor.model().vocab, predictor.max_positions()));
  const auto tokens = static_cast<int64_t>(input.tokens.size());
  MNEMON_RETURN_IF_ERROR(CheckAnswer(tokens, input, predictor.model()));
  const PredictCost cost = predictor.Cost(input);
  MNEMON_RETURN_IF_ERROR(CheckCost(cost, context.options));
  const auto job = std::make_shared<PredictJob>(
      std::move(input), cost, request.deadline, std::move(on_done),
      ChargeOf(context.memory, &EngineMemory::predictions));
  // Before the job is queued: from then on it is on_done that gets errors.
  std::function<void()> cancel = [weak = std::weak_ptr(runner), job] {
    if (const auto running = weak.lock()) running->Cancel(job);
  };
  MNEMON_RETURN_IF_ERROR(runner->Enqueue(job));
  return cancel;
}

}  // namespace mnemon
