// SPDX-License-Identifier: MIT
// Encoders: whole sequences in one call, one call after the other, on the engine's
// thread.
#include <exception>
#include <new>
#include <utility>

#include "base/error.h"
#include "base/log.h"
#include "base/status_macros.h"
#include "base/strings.h"
#include "server/engine/engine_core.h"
#include "server/engine/engine_errors.h"

namespace mnemon {
namespace {

using engine_errors::Draining;
using engine_errors::OutOfMemory;
using engine_errors::QueueFull;
using engine_errors::WrongKind;

// What one answer may hold: a client takes messages of 4 MiB unless told otherwise.
constexpr int64_t kMaxFloats = (int64_t{4} << 20) / sizeof(float) - 1024;

absl::Status CheckSize(const PredictRequest& request, const ModelConfig& config) {
  const auto tokens = static_cast<int64_t>(request.tokens.size());
  const int64_t time = tokens / request.batch;
  const int64_t per_layer =
      request.maps == AttentionMaps::kNone ? 0 : int64_t{config.heads} * tokens * time;
  // Each factor was checked before, so no product overflows.
  const int64_t floats = tokens * config.vocab + config.layers * per_layer;
  if (floats <= kMaxFloats) return absl::OkStatus();
  return InvalidField(
      "tokens", StrCat("the answer would hold ", floats, " numbers, at most ",
                       kMaxFloats, " fit into one message: send fewer sequences"));
}

}  // namespace

absl::StatusOr<std::function<void()>> EngineCore::Predict(PredictRequest request,
                                                          OnPredicted on_done) try {
  MNEMON_ASSIGN_OR_RETURN(const size_t index, LaneIndex(request.model));
  Lane& lane = *lanes_[index];
  const Predictor* const predictor = lane.model.predictor;
  if (!predictor) return WrongKind(lane.model.facts.name, "generates: use Generate");
  MNEMON_RETURN_IF_ERROR(CheckPredict({.tokens = request.tokens,
                                       .batch = request.batch,
                                       .mask = request.mask,
                                       .explicit_mask = request.explicit_mask,
                                       .maps = request.maps},
                                      predictor->config(), lane.context));
  MNEMON_RETURN_IF_ERROR(CheckSize(request, predictor->config()));
  auto job = std::make_shared<PredictJob>();
  job->request = std::move(request);
  job->on_done = std::move(on_done);

  Lock lock(mutex_);
  if (draining_) return Draining();
  if (queued_ >= options_.max_queue) return QueueFull(queued_);
  lane.jobs.push_back(job);
  ++queued_;
  WakeLocked();
  return [core = weak_from_this(), index, job] {
    if (const auto engine = core.lock()) engine->CancelPredict(index, job);
  };
} catch (const std::bad_alloc&) {
  return OutOfMemory();
}

void EngineCore::CancelPredict(size_t index, const std::shared_ptr<PredictJob>& job) {
  {
    Lock lock(mutex_);
    if (std::erase(lanes_[index]->jobs, job) == 0) return;
    --queued_;
  }
  job->on_done(absl::CancelledError("call cancelled"));
}

std::shared_ptr<PredictJob> EngineCore::NextJob(Lane& lane) {
  Lock lock(mutex_);
  if (lane.jobs.empty()) return nullptr;
  std::shared_ptr<PredictJob> job = std::move(lane.jobs.front());
  lane.jobs.pop_front();
  --queued_;
  return job;
}

bool EngineCore::PredictRound(Lane& lane) {
  const std::shared_ptr<PredictJob> job = NextJob(lane);
  if (!job) return false;
  const PredictRequest& request = job->request;
  absl::StatusOr<Predictor::Output> output = absl::InternalError("not run");
  try {
    output = lane.model.predictor->Predict({.tokens = request.tokens,
                                            .batch = request.batch,
                                            .mask = request.mask,
                                            .explicit_mask = request.explicit_mask,
                                            .maps = request.maps});
  } catch (const std::bad_alloc&) {
    output = OutOfMemory();
  } catch (const std::exception& e) {
    // The text of a foreign exception may hold paths and addresses: it goes to the log.
    LogError(StrCat("prediction failed: ", e.what()));
    output = MakeError(absl::StatusCode::kInternal, "the model failed to predict",
                       {.reason = "MODEL_FAILURE"});
  }
  {
    Lock lock(mutex_);
    ++steps_;
    tokens_fed_ += static_cast<int64_t>(request.tokens.size());
  }
  job->on_done(std::move(output));
  return true;
}

}  // namespace mnemon
