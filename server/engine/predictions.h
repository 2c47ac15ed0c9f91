// SPDX-License-Identifier: MIT
// Calls that run an encoder, from request to queued job.
#pragma once

#include <functional>
#include <memory>

#include "absl/status/statusor.h"
#include "server/requests/request.h"
#include "server/run/engine_context.h"
#include "server/run/predict_runner.h"

namespace mnemon {

// Checks the request against the model of `runner`, and queues it there;
// Engine::Predict has the contract of `on_done` and of the function that cancels. May
// throw std::bad_alloc: then `on_done` is not called.
absl::StatusOr<std::function<void()>> StartPrediction(
    const EngineContext& context, const std::shared_ptr<PredictRunner>& runner,
    PredictRequest request, OnPredicted on_done);

}  // namespace mnemon
