// SPDX-License-Identifier: MIT
// Engine::Predict: one after the other, within the limits of cost, queue and wait, and
// what a failure does. Pieces: engine_predict_pieces_test.cc.
#include "base/error.h"
#include "gmock/gmock.h"
#include "tests/fakes/patience.h"
#include "tests/server/engine/engine_fixture.h"
#include "tests/server/engine/predict_fixture.h"

namespace mnemon {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;

TEST(EnginePredict, AnswersInOrder) {
  Encoder encoder;
  std::vector<Answer> answers(20);
  for (int i = 0; i < 20; ++i) {
    ASSERT_TRUE(encoder.Start(answers[i], {i % 10, 1, 2}).ok());
  }
  for (Answer& answer : answers) EXPECT_TRUE(answer.Await().ok());
  EXPECT_TRUE(encoder.engine->WaitIdle(kPatience));
  EXPECT_EQ(encoder.engine->Stats().steps, 20);
}

TEST(EnginePredict, IsBoundedByItsCost) {
  const PredictCost cost = ToyPredictor().Cost({.tokens = {1, 2, 3}, .batch = 1});
  const auto status = [](Engine::Options options) {
    return Encoder(options).Run({1, 2, 3});
  };
  for (const absl::Status& refused :
       {status({.predict = {.multiply_adds = cost.multiply_adds - 1}}),
        status({.predict = {.bytes = cost.peak_bytes - 1}})}) {
    EXPECT_EQ(refused.code(), absl::StatusCode::kInvalidArgument);
    EXPECT_EQ(FieldOf(refused), "tokens");
  }
  EXPECT_TRUE(status({.predict = {.multiply_adds = cost.multiply_adds,
                                  .bytes = cost.peak_bytes}})
                  .ok());
}

// The second of two calls waits for as long as the first one takes.
TEST(EnginePredict, IsRefusedWhereItWouldWaitTooLong) {
  for (const auto& [max_wait, reason] : {std::pair(milliseconds(999), "QUEUE_FULL"),
                                         std::pair(milliseconds(1000), "")}) {
    Encoder encoder({.max_wait = max_wait});
    encoder.predictor.OnPiece([&](size_t) { encoder.clock.Advance(seconds(1)); });
    ASSERT_TRUE(encoder.Run({1, 2, 3}).ok());
    ASSERT_TRUE(encoder.engine->WaitIdle(kPatience));
    encoder.predictor.Close();
    Answer runs, waits;
    ASSERT_TRUE(encoder.Start(runs, {1, 2, 3}).ok());
    ASSERT_TRUE(encoder.predictor.AwaitHeld());
    EXPECT_EQ(ReasonOf(encoder.Start(waits, {1, 2, 3}).status()), reason);
    encoder.predictor.Open();
    ASSERT_TRUE(encoder.engine->WaitIdle(kPatience));
  }
}

// A small prediction takes long for its cost: a large one cannot be estimated by it.
TEST(EnginePredict, EstimatesLargeOnesBesideManySmallOnes) {
  const std::vector<int32_t> small = {1}, large(ToyPredictor::kPositions, 1);
  for (const bool small_first : {true, false}) {
    Encoder encoder;
    encoder.predictor.OnPiece([&](size_t tokens) {
      encoder.clock.Advance(milliseconds(tokens == 1 ? 5 : 1000));
    });
    for (int i = 0; i <= 60; ++i) {
      const bool is_large = i == (small_first ? 60 : 0);
      ASSERT_TRUE(encoder.Run(is_large ? large : small).ok());
    }
    ASSERT_TRUE(encoder.engine->WaitIdle(kPatience));
    encoder.predictor.Close();
    Answer runs, late, in_time;
    ASSERT_TRUE(encoder.Start(runs, large).ok());
    ASSERT_TRUE(encoder.predictor.AwaitHeld());
    // It ends after two large ones.
    EXPECT_EQ(ReasonOf(encoder.Start(late, large, milliseconds(1900)).status()),
              "DEADLINE_UNREACHABLE");
    EXPECT_EQ(encoder.Start(in_time, large, milliseconds(3000)).status(),
              absl::OkStatus());
    encoder.predictor.Open();
    ASSERT_TRUE(encoder.engine->WaitIdle(kPatience));
  }
}

// One that cannot end by its deadline any more, because those before it took longer
// than was expected, is not computed while others wait.
TEST(EnginePredict, EndsTheLateOnesThatWaited) {
  Encoder encoder;
  encoder.predictor.OnPiece([&](size_t) { encoder.clock.Advance(milliseconds(100)); });
  ASSERT_TRUE(encoder.Run({1, 2, 3}).ok());
  ASSERT_TRUE(encoder.engine->WaitIdle(kPatience));
  encoder.predictor.Close();
  Answer runs, late, last;
  ASSERT_TRUE(encoder.Start(runs, {1, 2, 3}).ok());
  ASSERT_TRUE(encoder.predictor.AwaitHeld());
  ASSERT_TRUE(encoder.Start(late, {1, 2, 3}, milliseconds(500)).ok());
  ASSERT_TRUE(encoder.Start(last, {1, 2, 3}, milliseconds(500)).ok());
  encoder.clock.Advance(milliseconds(350));
  encoder.predictor.Open();
  EXPECT_TRUE(runs.Await().ok());
  EXPECT_EQ(ReasonOf(late.Await().status()), "DEADLINE_UNREACHABLE");
  // Nobody waits after the last one.
  EXPECT_TRUE(last.Await().ok());
  EXPECT_EQ(encoder.predictor.pieces(), 3);
}

// The estimate learns from predictions of which none is ever done.
TEST(EnginePredict, MeasuresThoseThatEndEarly) {
  Encoder encoder({}, 10);
  encoder.predictor.OnPiece([&](size_t) { encoder.clock.Advance(seconds(1)); });
  Answer ends, runs, refused;
  ASSERT_TRUE(encoder.Start(ends, {1, 2, 3}, seconds(5)).ok());
  EXPECT_TRUE(absl::IsDeadlineExceeded(ends.Await().status()));
  ASSERT_TRUE(encoder.engine->WaitIdle(kPatience));
  encoder.predictor.Close();
  ASSERT_TRUE(encoder.Start(runs, {1, 2, 3}).ok());
  ASSERT_TRUE(encoder.predictor.AwaitHeld());
  // Each takes ten seconds.
  EXPECT_EQ(ReasonOf(encoder.Start(refused, {1, 2, 3}, seconds(18)).status()),
            "DEADLINE_UNREACHABLE");
  EXPECT_TRUE(encoder.Start(refused, {1, 2, 3}, seconds(25)).ok());
  encoder.predictor.Finish();
  EXPECT_TRUE(runs.Await().ok());
  ASSERT_TRUE(encoder.engine->WaitIdle(kPatience));
}

TEST(EnginePredict, RefusesWhenDraining) {
  Encoder encoder;
  encoder.engine->Drain();
  EXPECT_EQ(ReasonOf(encoder.Run({1})), "DRAINING");
}

TEST(EnginePredict, AThrownExceptionIsOneCallsError) {
  Encoder encoder;
  Answer bad, good;
  ASSERT_TRUE(encoder.Start(bad, {ToyPredictor::kThrowing}).ok());
  ASSERT_TRUE(encoder.Start(good, {1}).ok());
  EXPECT_EQ(bad.Await().status().code(), absl::StatusCode::kInternal);
  EXPECT_TRUE(good.Await().ok());
}

}  // namespace
}  // namespace mnemon
