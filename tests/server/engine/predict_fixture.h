// SPDX-License-Identifier: MIT
// An engine over a toy predictor, and the answers to its calls.
#pragma once

#include <condition_variable>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <utility>
#include <vector>

#include "gtest/gtest.h"
#include "server/engine/engine.h"
#include "tests/fakes/fake_clock.h"
#include "tests/fakes/patience.h"
#include "tests/fakes/toy_predictor.h"

namespace mnemon {

// The answer of one call; the call may outlive it.
class Answer {
 public:
  OnPredicted Callback() {
    return [state = state_](absl::StatusOr<Predictor::Output> output) {
      std::lock_guard lock(state->mutex);
      state->result = std::move(output);
      ++state->count;
      state->changed.notify_all();
    };
  }
  absl::StatusOr<Predictor::Output> Await() {
    std::unique_lock lock(state_->mutex);
    EXPECT_TRUE(
        state_->changed.wait_for(lock, kPatience, [&] { return state_->count > 0; }));
    return state_->result;
  }
  // Number of answers to the call.
  int count() {
    std::lock_guard lock(state_->mutex);
    return state_->count;
  }

 private:
  struct State {
    std::mutex mutex;
    std::condition_variable changed;
    int count = 0;  // guarded by mutex, as all below
    absl::StatusOr<Predictor::Output> result = absl::UnknownError("nothing yet");
  };
  const std::shared_ptr<State> state_ = std::make_shared<State>();
};

struct Encoder {
  // `decoder` may be null; else it is served besides the predictor.
  explicit Encoder(Engine::Options options = {}, int64_t pieces = 1,
                   Decoder* decoder = nullptr)
      : predictor(pieces) {
    options.clock = &clock;
    std::vector<EngineModel> models(decoder == nullptr ? 1 : 2);
    models[0].facts.name = "encoder";
    models[0].predictor = &predictor;
    if (decoder != nullptr) {
      models[1].facts.name = "decoder";
      models[1].decoder = decoder;
    }
    auto made = Engine::Create(models, options);
    EXPECT_TRUE(made.ok()) << made.status();
    engine = *std::move(made);
  }
  // An endless prediction must not delay the engine's end.
  ~Encoder() { predictor.Finish(); }

  absl::StatusOr<std::function<void()>> Start(
      Answer& answer, std::vector<int32_t> tokens,
      std::optional<std::chrono::milliseconds> deadline = {}) {
    PredictRequest request{.model = "encoder", .tokens = std::move(tokens), .batch = 1};
    if (deadline) request.deadline = clock.Now() + *deadline;
    return engine->Predict(std::move(request), answer.Callback());
  }
  absl::Status Run(std::vector<int32_t> tokens) {
    Answer answer;
    const absl::Status status = Start(answer, std::move(tokens)).status();
    return status.ok() ? answer.Await().status() : status;
  }

  FakeClock clock;
  ToyPredictor predictor;
  std::unique_ptr<Engine> engine;  // ends first
};

}  // namespace mnemon
