// SPDX-License-Identifier: MIT
#include "bench/kernels/stream_round.h"

#include "gtest/gtest.h"
#include "tests/fakes/patience.h"
#include "tests/fakes/toy_decoder.h"

namespace mnemon {
namespace {

using std::chrono::hours;
using std::chrono::milliseconds;

class StreamRoundTest : public testing::Test {
 protected:
  ToyDecoder decoder_{ToyState::kAppend, 100};
  std::unique_ptr<Engine> engine_ =
      Engine::Create({{.facts = {.name = "default",
                                 .vocab = ToyDecoder::kVocab,
                                 .context_limit = 100},
                       .decoder = &decoder_}},
                     {.sessions = 4, .max_queue = 4})
          .value();
  RoundShape shape_{.streams = 3,
                    .prompt_tokens = 5,
                    .new_tokens = 20,
                    .vocab = ToyDecoder::kOrdinaryTokens};
};

TEST_F(StreamRoundTest, TimesEveryToken) {
  const auto start = std::chrono::steady_clock::now();
  // More than one message holds: those of the first one have no gap.
  shape_.new_tokens = 90;
  const RoundTimes times = RunRound(*engine_, shape_, hours(1)).value();
  const std::chrono::duration<double> all = std::chrono::steady_clock::now() - start;
  EXPECT_EQ(times.first_token.size(), 3u);
  EXPECT_GE(times.gaps.size(), 3u * (90 - TokenStream::kCapacity));
  EXPECT_LE(times.gaps.size(), 3u * 89);
  EXPECT_EQ(engine_->Stats().tokens_generated, 3 * 90);
  double sum = 0;
  for (const double gap : times.gaps) {
    EXPECT_GE(gap, 0);
    EXPECT_LE(gap, all.count());
    sum += gap;
  }
  EXPECT_LE(sum, 3 * all.count());
  EXPECT_TRUE(engine_->WaitIdle(kPatience));
  EXPECT_EQ(engine_->Stats().sessions, 0);
}

TEST_F(StreamRoundTest, StopsAtItsLimit) {
  decoder_.Allow(2);
  const absl::Status status = RunRound(*engine_, shape_, milliseconds(30)).status();
  EXPECT_EQ(status.code(), absl::StatusCode::kDeadlineExceeded);
  decoder_.AllowAll();
  EXPECT_TRUE(engine_->WaitIdle(kPatience));
  EXPECT_LT(engine_->Stats().tokens_generated, 60);
}

TEST_F(StreamRoundTest, SaysWhenTheContextEnds) {
  shape_.new_tokens = 99;
  const absl::Status status = RunRound(*engine_, shape_, hours(1)).status();
  EXPECT_EQ(status.code(), absl::StatusCode::kFailedPrecondition) << status;
}

TEST_F(StreamRoundTest, ReportsWhatTheEngineSays) {
  shape_.prompt_tokens = 101;
  const absl::Status status = RunRound(*engine_, shape_, hours(1)).status();
  EXPECT_EQ(status.code(), absl::StatusCode::kFailedPrecondition) << status;
}

}  // namespace
}  // namespace mnemon
