// SPDX-License-Identifier: MIT
// Between two pieces of a prediction: its end for each reason, and steps of another
// model.
#include <atomic>
#include <chrono>
#include <future>
#include <thread>

#include "gmock/gmock.h"
#include "tests/fakes/patience.h"
#include "tests/server/engine/engine_fixture.h"
#include "tests/server/engine/predict_fixture.h"

namespace mnemon {
namespace {

using std::chrono::hours;
using std::chrono::milliseconds;
using std::chrono::seconds;

// A prediction of five pieces that waits in its first one.
class PredictionInItsFirstPiece : public testing::Test {
 protected:
  void Begin(std::optional<milliseconds> deadline = {}) {
    encoder_.predictor.Close();
    auto cancel = encoder_.Start(answer_, {1, 2}, deadline);
    ASSERT_TRUE(cancel.ok()) << cancel.status();
    cancel_ = *std::move(cancel);
    ASSERT_TRUE(encoder_.predictor.AwaitHeld());
  }

  Encoder encoder_{{}, 5};
  Answer answer_;
  std::function<void()> cancel_;
};

TEST_F(PredictionInItsFirstPiece, GoesOnToTheLast) {
  Begin();
  encoder_.predictor.Open();
  EXPECT_TRUE(answer_.Await().ok());
  EXPECT_EQ(encoder_.predictor.pieces(), 5);
}

TEST_F(PredictionInItsFirstPiece, EndsWhenItIsCancelled) {
  Begin();
  cancel_();
  encoder_.predictor.Open();
  EXPECT_TRUE(absl::IsCancelled(answer_.Await().status()));
  EXPECT_EQ(encoder_.predictor.pieces(), 1);
  EXPECT_TRUE(encoder_.engine->WaitIdle(kPatience));
  EXPECT_EQ(encoder_.engine->Stats().running, 0);
}

TEST_F(PredictionInItsFirstPiece, EndsAtItsDeadline) {
  Begin(seconds(5));
  encoder_.clock.Advance(seconds(5));
  encoder_.predictor.Open();
  EXPECT_TRUE(absl::IsDeadlineExceeded(answer_.Await().status()));
  EXPECT_EQ(encoder_.predictor.pieces(), 1);
}

TEST_F(PredictionInItsFirstPiece, GoesOnWhileTheEngineDrains) {
  Begin();
  encoder_.engine->Drain();
  EXPECT_FALSE(encoder_.engine->WaitIdle(milliseconds(0)));
  encoder_.predictor.Open();
  EXPECT_TRUE(answer_.Await().ok());
  EXPECT_TRUE(encoder_.engine->WaitIdle(kPatience));
}

TEST(EndlessPrediction, EndsWithTheEngineAndSoDoThoseThatWait) {
  Encoder encoder({}, ToyPredictor::kEndless);
  std::vector<Answer> answers(4);
  for (Answer& answer : answers) ASSERT_TRUE(encoder.Start(answer, {1, 2}).ok());
  std::thread end([&] { encoder.engine.reset(); });
  for (Answer& answer : answers) {
    EXPECT_TRUE(absl::IsUnavailable(answer.Await().status()));
  }
  encoder.predictor.Finish();
  end.join();
}

TEST(EndlessPrediction, LetsADecoderMakeItsSteps) {
  ToyDecoder decoder(ToyState::kAppend);
  // The clock runs fast: no caller is to be idle by it.
  Encoder encoder({.idle_timeout = hours(100'000)}, ToyPredictor::kEndless, &decoder);
  encoder.predictor.OnPiece([&](size_t) { encoder.clock.Advance(milliseconds(1)); });
  encoder.predictor.Close();
  Answer answer;
  ASSERT_TRUE(encoder.Start(answer, {1, 2}).ok());
  ASSERT_TRUE(encoder.predictor.AwaitHeld());
  GenerateRequest request = Ask(Tokens(30, 1), 5);
  request.model = "decoder";
  Reader reader(*encoder.engine, request);
  encoder.predictor.Open();
  EXPECT_EQ(reader.Finish().tokens.size(), 5u);
  EXPECT_EQ(answer.count(), 0);
  encoder.predictor.Finish();
  EXPECT_TRUE(answer.Await().ok());
}

// The end of one prediction and the begin of the next: while memory is given back and
// taken, a decoder makes its steps.
TEST(PredictionMemory, IsTakenAndGivenBackWithoutTheTurn) {
  for (const int64_t nth : {2, 3}) {  // the first one ends, the second one begins
    ToyDecoder decoder(ToyState::kAppend);
    Encoder encoder({}, 1, &decoder);
    std::atomic<int64_t> count = 0;
    std::promise<void> stepped;
    encoder.predictor.OnMemory([&] {
      if (++count != nth) return;
      decoder.AwaitHeld();
      stepped.set_value();
    });
    encoder.predictor.Close();
    decoder.Allow(0);
    Answer first, second;
    ASSERT_TRUE(encoder.Start(first, {1, 2}).ok());
    ASSERT_TRUE(encoder.predictor.AwaitHeld());
    ASSERT_TRUE(encoder.Start(second, {1, 2}).ok());
    GenerateRequest request = Ask(Tokens(30, 1), 5);
    request.model = "decoder";
    Reader reader(*encoder.engine, request);
    encoder.predictor.Open();
    EXPECT_TRUE(first.Await().ok());
    EXPECT_EQ(stepped.get_future().wait_for(kPatience), std::future_status::ready);
    decoder.AllowAll();
    EXPECT_TRUE(second.Await().ok());
    EXPECT_EQ(reader.Finish().tokens.size(), 5u);
  }
}

}  // namespace
}  // namespace mnemon
