// SPDX-License-Identifier: MIT
#include "bench/kernels/sessions.h"

#include <chrono>

#include "bench/kernels/model_size.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace mnemon {
namespace {

using std::chrono::steady_clock;

std::vector<float> Logits(const Sessions& sessions) {
  return {sessions.logits().begin(), sessions.logits().end()};
}

class SessionsTest : public testing::TestWithParam<std::string> {
 protected:
  std::unique_ptr<BenchModel> model_ = BenchModel::Make(GetParam(), "XS").value();
  static constexpr int64_t kVocab = 128;
};

TEST_P(SessionsTest, AStepIsTheSameAfterRewinding) {
  Sessions sessions = Sessions::Create(*model_, 2, 40).value();
  ASSERT_TRUE(sessions.Step(2).ok());
  const std::vector<float> first = Logits(sessions);
  EXPECT_EQ(first.size(), size_t{2 * kVocab});
  // Different tokens and memories: not the same row twice.
  EXPECT_NE(std::vector(first.begin(), first.begin() + kVocab),
            std::vector(first.begin() + kVocab, first.end()));
  ASSERT_TRUE(sessions.Step(2).ok());
  EXPECT_NE(Logits(sessions), first);  // the memory has grown
  sessions.Rewind();
  if (!model_->decoder().spec().growing()) return;
  ASSERT_TRUE(sessions.Step(2).ok());
  EXPECT_EQ(Logits(sessions), first);
}

TEST_P(SessionsTest, AloneAsInABatch) {
  Sessions alone = Sessions::Create(*model_, 1, 20).value();
  Sessions together = Sessions::Create(*model_, 3, 20).value();
  ASSERT_TRUE(alone.Step(1).ok());
  ASSERT_TRUE(together.Step(3).ok());
  EXPECT_EQ(Logits(alone),
            std::vector(together.logits().begin(), together.logits().begin() + kVocab));
}

TEST_P(SessionsTest, HoldsWhatItsContextTakes) {
  const Sessions sessions = Sessions::Create(*model_, 3, 33).value();
  EXPECT_EQ(sessions.held_bytes(), 3 * model_->decoder().spec().bytes_at(33));
}

TEST_P(SessionsTest, PromptsOverSeveralChunks) {
  Sessions sessions = Sessions::Create(*model_, 1, 0).value();
  const auto far = steady_clock::now() + std::chrono::hours(1);
  ASSERT_TRUE(sessions.FeedPrompt(70, far).ok());
  const std::vector<float> first = Logits(sessions);
  sessions.Reset();
  ASSERT_TRUE(sessions.FeedPrompt(70, far).ok());
  EXPECT_EQ(Logits(sessions), first);
  sessions.Reset();
  ASSERT_TRUE(sessions.FeedPrompt(69, far).ok());
  EXPECT_NE(Logits(sessions), first);
}

TEST_P(SessionsTest, APromptStopsAtItsDeadline) {
  Sessions sessions = Sessions::Create(*model_, 1, 0).value();
  const absl::Status status =
      sessions.FeedPrompt(64, steady_clock::now() - std::chrono::seconds(1));
  EXPECT_EQ(status.code(), absl::StatusCode::kDeadlineExceeded);
}

INSTANTIATE_TEST_SUITE_P(All, SessionsTest, testing::ValuesIn(BenchArchitectures()),
                         [](const auto& info) { return info.param; });

TEST(Sessions, BeyondTheContext) {
  const auto causal = BenchModel::Make("causal", "XS").value();
  EXPECT_TRUE(Sessions::Create(*causal, 1, 4095).ok());
  const absl::Status status = Sessions::Create(*causal, 1, 4096).status();
  EXPECT_EQ(status.code(), absl::StatusCode::kFailedPrecondition);
  EXPECT_THAT(std::string(status.message()), testing::HasSubstr("4096"));
  const auto feedback = BenchModel::Make("feedback", "XS").value();
  EXPECT_TRUE(Sessions::Create(*feedback, 1, 4096).ok());
}

}  // namespace
}  // namespace mnemon
