// SPDX-License-Identifier: MIT
// The models of an engine, each with its runner.
#pragma once

#include <atomic>
#include <chrono>
#include <cstddef>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "server/requests/request.h"
#include "server/run/engine_context.h"
#include "server/run/model_runner.h"
#include "server/run/predict_runner.h"

namespace mnemon {

// Constant after Start but for draining, and safe for concurrent use then. A model is
// named by its index in the order of Start.
class ModelTable {
 public:
  // One of the two is set.
  struct Runner {
    std::shared_ptr<ModelRunner> decoder;
    std::shared_ptr<PredictRunner> predictor;
    const EngineModel& model() const {
      return decoder ? decoder->model() : predictor->model();
    }
  };

  // Returns the first error of a runner's Start; the runners before it stay.
  absl::Status Start(const std::vector<EngineModel>& models,
                     const std::shared_ptr<const EngineContext>& context);
  // Ends all calls and joins the threads of the runners.
  void Stop();

  const std::vector<Runner>& runners() const { return runners_; }
  const EngineModel& model(size_t index) const { return runners_[index].model(); }
  // Null for a predictor.
  const std::shared_ptr<ModelRunner>& decoder(size_t index) const {
    return runners_[index].decoder;
  }

  // An empty name means the only model, or the one called "default". NOT_FOUND,
  // MODEL_NOT_FOUND; INVALID_ARGUMENT, field "model".
  absl::StatusOr<size_t> Find(const std::string& name) const;
  // As Find; UNIMPLEMENTED, MODEL_KIND, for a predictor.
  absl::StatusOr<size_t> FindDecoder(const std::string& name) const;

  // From now on the runners and CheckOpen refuse with UNAVAILABLE, DRAINING.
  void Drain();
  bool draining() const { return draining_; }
  absl::Status CheckOpen() const;
  // Waits until `deadline` at most. True: no call is queued or running.
  bool WaitIdle(std::chrono::steady_clock::time_point deadline) const;

 private:
  std::vector<Runner> runners_;
  std::atomic<bool> draining_ = false;
};

}  // namespace mnemon
