// SPDX-License-Identifier: MIT
// Engine::Predict: one after the other, cut into pieces, cancelled, drained, bounded.
#include <condition_variable>
#include <mutex>

#include "base/error.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "server/engine/engine.h"
#include "tests/fakes/fake_clock.h"
#include "tests/fakes/toy_predictor.h"

namespace mnemon {
namespace {

using std::chrono::seconds;

// The answer of one call.
struct Answer {
  void Set(absl::StatusOr<Predictor::Output> output) {
    std::lock_guard lock(mutex);
    result = std::move(output);
    done = true;
    changed.notify_all();
  }
  absl::StatusOr<Predictor::Output> Await() {
    std::unique_lock lock(mutex);
    EXPECT_TRUE(changed.wait_for(lock, seconds(60), [&] { return done; }));
    return result;
  }
  std::mutex mutex;
  std::condition_variable changed;
  bool done = false;  // guarded by mutex
  absl::StatusOr<Predictor::Output> result = absl::UnknownError("nothing yet");
};

struct Encoder {
  explicit Encoder(Engine::Options options = {}) {
    options.clock = &clock;
    EngineModel model;
    model.facts.name = "encoder";
    model.predictor = &predictor;
    auto made = Engine::Create({model}, options);
    EXPECT_TRUE(made.ok()) << made.status();
    engine = *std::move(made);
  }
  absl::StatusOr<std::function<void()>> Start(Answer& answer,
                                              std::vector<int32_t> tokens,
                                              int64_t batch = 1) {
    return engine->Predict({.tokens = std::move(tokens), .batch = batch},
                           [&](auto output) { answer.Set(std::move(output)); });
  }
  FakeClock clock;
  ToyPredictor predictor;
  std::unique_ptr<Engine> engine;
};

TEST(EnginePredict, AnswersInOrder) {
  Encoder encoder;
  std::vector<Answer> answers(20);
  for (int i = 0; i < 20; ++i) {
    ASSERT_TRUE(encoder.Start(answers[i], {i % 10, 1, 2}).ok());
  }
  for (Answer& answer : answers) EXPECT_TRUE(answer.Await().ok());
  EXPECT_TRUE(encoder.engine->WaitIdle(seconds(60)));
  EXPECT_EQ(encoder.engine->Stats().steps, 20);
}

TEST(EnginePredict, IsBoundedByItsCost) {
  Encoder encoder({.max_predict_multiply_adds = 1});
  Answer answer;
  const absl::Status status = encoder.Start(answer, {1, 2, 3}).status();
  EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument);
  EXPECT_EQ(GetErrorDetail(status)->field, "tokens");
}

TEST(EnginePredict, RefusesWhenDraining) {
  Encoder encoder;
  encoder.engine->Drain();
  Answer answer;
  EXPECT_EQ(GetErrorDetail(encoder.Start(answer, {1}).status())->reason, "DRAINING");
}

TEST(EnginePredict, AThrownExceptionIsOneCallsError) {
  Encoder encoder;
  Answer bad, good;
  ASSERT_TRUE(encoder.Start(bad, {ToyPredictor::kThrowing}).ok());
  ASSERT_TRUE(encoder.Start(good, {1}).ok());
  EXPECT_EQ(bad.Await().status().code(), absl::StatusCode::kInternal);
  EXPECT_TRUE(good.Await().ok());
}

TEST(EnginePredict, EndsWithTheEngine) {
  for (int round = 0; round < 20; ++round) {
    auto encoder = std::make_unique<Encoder>();
    std::vector<Answer> answers(8);
    for (Answer& answer : answers) ASSERT_TRUE(encoder->Start(answer, {1, 2}).ok());
    encoder->engine.reset();
    for (Answer& answer : answers) {
      const auto result = answer.Await();
      EXPECT_TRUE(result.ok() || absl::IsUnavailable(result.status()));
    }
  }
}

}  // namespace
}  // namespace mnemon
