// SPDX-License-Identifier: MIT
// Streams that are lost and taken up again, against a fake.
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <thread>

#include "base/error.h"
#include "client/client.h"
#include "client/request_id.h"
#include "client/retries.h"
#include "gmock/gmock.h"
#include "tests/client/fake_generation.h"
#include "tests/fakes/patience.h"

namespace mnemon::client {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;
using std::chrono::steady_clock;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::MatchesRegex;
using ::testing::SizeIs;
using Act = FakeGeneration::Act;
using Code = absl::StatusCode;

constexpr int kFirst = FakeGeneration::kFirst;
constexpr int kAnswer = FakeGeneration::kAnswer;

class ResumeTest : public ::testing::Test {
 protected:
  ResumeTest() { Connect({}); }

  void Connect(const RetryOptions& retry) {
    client_ = Client::Connect({.server = fake_.address(), .retry = retry});
  }

  absl::StatusOr<GenerateResult> Generate(const GenerateOptions& options) {
    return client_->Generate(options, [&](const GenerateChunk& chunk) {
      text_ += chunk.text;
      for (size_t i = 0; i < chunk.tokens.size(); ++i) {
        EXPECT_EQ(chunk.tokens[i], 100 + chunk.first_index + static_cast<int64_t>(i));
      }
      if (chunk.resumed_after) resumed_.push_back(*chunk.resumed_after);
      return !stop_;
    });
  }
  absl::StatusOr<GenerateResult> Generate() {
    return Generate(
        {.session = "anna", .text = "abc", .stopping = {.max_tokens = kAnswer}});
  }

  FakeGeneration fake_;
  std::unique_ptr<Client> client_;
  std::string text_;
  std::vector<int64_t> resumed_;
  bool stop_ = false;
};

TEST_F(ResumeTest, AnUndisturbedCallIsNamed) {
  const auto result = Generate();
  ASSERT_TRUE(result.ok()) << result.status();
  EXPECT_EQ(text_, FakeGeneration::Text());
  EXPECT_EQ(result->resumes, 0);
  ASSERT_THAT(fake_.requests(), SizeIs(1));
  EXPECT_THAT(fake_.requests()[0].request_id(),
              MatchesRegex("[0-9a-f]{8}-[0-9a-f]{4}-4[0-9a-f]{3}-[89ab][0-9a-f]{3}-"
                           "[0-9a-f]{12}"));
  EXPECT_NE(NewRequestId(), NewRequestId());
}

TEST_F(ResumeTest, ALostStreamGoesOnAfterItsLastToken) {
  fake_.Script({{.tokens = 3}, {.tokens = 2}});
  const auto result = Generate();
  ASSERT_TRUE(result.ok()) << result.status();
  EXPECT_EQ(text_, FakeGeneration::Text());
  EXPECT_EQ(result->resumes, 2);
  EXPECT_EQ(result->generated_tokens, kAnswer);
  EXPECT_EQ(result->prompt_tokens, FakeGeneration::kPrompt);
  EXPECT_THAT(resumed_, ElementsAre(kFirst + 2, kFirst + 4));
  const auto requests = fake_.requests();
  ASSERT_THAT(requests, SizeIs(3));
  EXPECT_EQ(requests[1].session(), "sessions/anna");
  EXPECT_EQ(requests[1].request_id(), requests[0].request_id());
  EXPECT_EQ(requests[1].resume_after_index(), kFirst + 2);
  EXPECT_FALSE(requests[1].has_prompt());
  EXPECT_EQ(requests[2].resume_after_index(), kFirst + 4);
}

TEST_F(ResumeTest, AStreamMayBeLostAtEveryToken) {
  // More often than there are tries: a token that comes starts them anew.
  Connect({.tries = 3});
  std::deque<Act> acts;
  for (int i = 0; i <= kAnswer; ++i) acts.push_back({.tokens = i == 0 ? 0 : 1});
  fake_.Script(acts);
  ASSERT_TRUE(Generate().ok());
  EXPECT_EQ(text_, FakeGeneration::Text());
  // Lost after the last token, only the end is missing.
  EXPECT_EQ(resumed_.back(), kFirst + kAnswer - 1);
}

TEST_F(ResumeTest, WithoutATokenItBeginsWithTheFirst) {
  fake_.Script({{.tokens = 0}});
  ASSERT_TRUE(Generate().ok());
  EXPECT_EQ(text_, FakeGeneration::Text());
  EXPECT_THAT(resumed_, ElementsAre(-1));
  EXPECT_EQ(fake_.requests()[1].resume_after_index(), -1);
}

TEST_F(ResumeTest, WithoutAnyMessageTheRequestIsRepeated) {
  fake_.Script({{.first_message = false}, {.first_message = false}});
  const auto result = Generate();
  ASSERT_TRUE(result.ok()) << result.status();
  EXPECT_EQ(text_, FakeGeneration::Text());
  EXPECT_EQ(result->resumes, 2);
  EXPECT_THAT(resumed_, IsEmpty());
  const auto requests = fake_.requests();
  ASSERT_THAT(requests, SizeIs(3));
  EXPECT_EQ(requests[2].SerializeAsString(), requests[0].SerializeAsString());
}

TEST_F(ResumeTest, AForgottenCallWithoutATokenIsRepeated) {
  fake_.Script({{.tokens = 0, .forget = true}});
  ASSERT_TRUE(Generate().ok());
  EXPECT_EQ(text_, FakeGeneration::Text());
  const auto requests = fake_.requests();
  ASSERT_THAT(requests, SizeIs(3));
  EXPECT_EQ(requests[1].resume_after_index(), -1);
  EXPECT_EQ(requests[2].SerializeAsString(), requests[0].SerializeAsString());
}

TEST_F(ResumeTest, AForgottenCallWithTokensIsAnError) {
  fake_.Script({{.tokens = 4, .forget = true}});
  const absl::Status status = Generate().status();
  EXPECT_EQ(status.code(), Code::kNotFound);
  EXPECT_THAT(std::string(status.message()),
              HasSubstr("4 tokens came, the last one of index 11, but the server has "
                        "forgotten the call"));
  const auto detail = GetErrorDetail(status);
  ASSERT_TRUE(detail);
  EXPECT_EQ(detail->reason, "REQUEST_UNKNOWN");
  EXPECT_EQ(detail->metadata.at("received_token_count"), "4");
  EXPECT_THAT(fake_.requests(), SizeIs(2));
}

TEST_F(ResumeTest, TheTimeThatTheServerAsksForPasses) {
  fake_.Script({{.tokens = 1,
                 .status = Typed(grpc::UNAVAILABLE, "DRAINING", milliseconds(700))}});
  const auto begin = steady_clock::now();
  ASSERT_TRUE(Generate().ok());
  EXPECT_GE(steady_clock::now() - begin, milliseconds(700));
  // Beyond the limit it is not waited for.
  Connect({.limit = seconds(2)});
  fake_.Script(
      {{.tokens = 1, .status = Typed(grpc::UNAVAILABLE, "DRAINING", seconds(9))}});
  const absl::Status status = Generate().status();
  EXPECT_EQ(status.code(), Code::kUnavailable);
  EXPECT_THAT(std::string(status.message()),
              HasSubstr("1 tokens came, the last one of index 8, but the stream was "
                        "lost: the server says DRAINING"));
}

TEST_F(ResumeTest, ABrokenCallOfARefusalThatPassesGoesOn) {
  // Memory that was short in the middle, and the old stream still believed alive.
  fake_.Script(
      {{.tokens = 2,
        .status = Typed(grpc::RESOURCE_EXHAUSTED, "NO_FREE_BLOCKS", milliseconds(20))},
       {.status = Typed(grpc::ABORTED, "SESSION_BUSY", milliseconds(20)),
        .first_message = false}});
  ASSERT_TRUE(Generate().ok());
  EXPECT_EQ(text_, FakeGeneration::Text());
  EXPECT_EQ(fake_.requests()[2].resume_after_index(), kFirst + 1);
}

TEST_F(ResumeTest, OtherErrorsEndTheCall) {
  const grpc::Status errors[] = {Typed(grpc::ABORTED, "STREAM_RESUMED"),
                                 Typed(grpc::INTERNAL, "MODEL_FAILURE"),
                                 Typed(grpc::RESOURCE_EXHAUSTED, "MEMORY_LIMIT"),
                                 {grpc::DATA_LOSS, "damaged"}};
  for (const grpc::Status& error : errors) {
    fake_.Script({{.tokens = 2, .status = error}});
    const absl::Status status = Generate().status();
    EXPECT_EQ(static_cast<int>(status.code()), static_cast<int>(error.error_code()));
  }
  EXPECT_THAT(fake_.requests(), SizeIs(4));
  // A refusal is the caller's to judge.
  fake_.Script(
      {{.status = Typed(grpc::RESOURCE_EXHAUSTED, "QUEUE_FULL", milliseconds(1)),
        .first_message = false}});
  EXPECT_EQ(Generate().status().code(), Code::kResourceExhausted);
  EXPECT_THAT(fake_.requests(), SizeIs(5));
}

TEST_F(ResumeTest, TokensThatDoNotFollowAreAnError) {
  fake_.Script({{.tokens = 2}, {.tokens = 3, .skip = 1}});
  const absl::Status status = Generate().status();
  EXPECT_EQ(status.code(), Code::kDataLoss);
  EXPECT_THAT(std::string(status.message()), HasSubstr("token 11 after token 9"));
  EXPECT_EQ(text_, "8,9,");
}

TEST_F(ResumeTest, CallsWithoutASessionOrTheWishAreMadeOnce) {
  for (const GenerateOptions& options :
       {GenerateOptions{.text = "abc"},
        GenerateOptions{
            .session = "anna", .text = "abc", .resume = {.automatic = false}}}) {
    fake_.Script({{.tokens = 2}});
    EXPECT_EQ(Generate(options).status().code(), Code::kUnavailable);
    EXPECT_EQ(fake_.requests().back().request_id(), "");
  }
  Connect({.tries = 1});
  fake_.Script({{.tokens = 2}});
  EXPECT_EQ(Generate().status().code(), Code::kUnavailable);
  EXPECT_EQ(fake_.requests().back().request_id(), "");
  EXPECT_THAT(fake_.requests(), SizeIs(3));
}

TEST_F(ResumeTest, AnEarlierCallIsResumedByHand) {
  EXPECT_EQ(Generate({.session = "anna", .resume = {.after = 9}}).status().code(),
            Code::kInvalidArgument);
  const std::string id = NewRequestId();
  const GenerateOptions options{
      .session = "anna",
      .request_id = id,
      .resume = {.on_disconnect = OnDisconnect::kContinue, .after = kFirst + 1},
      .expected_tokens = 9};
  EXPECT_EQ(Generate(options).status().code(), Code::kNotFound);
  EXPECT_EQ(fake_.requests()[0].on_disconnect(), v1::CONTINUE);
  EXPECT_EQ(fake_.requests()[0].expected_token_count(), 9);
  fake_.Remember(id);
  fake_.Script({{.tokens = 0}, {.tokens = 2}});
  ASSERT_TRUE(Generate(options).ok());
  EXPECT_EQ(text_, FakeGeneration::Text(kFirst + 2));
  EXPECT_THAT(resumed_, ElementsAre(kFirst + 1, kFirst + 3));
}

TEST_F(ResumeTest, AServerThatIsAwayForAWhileIsAwaited) {
  fake_.Script({{.tokens = 3, .hang = true}});
  std::thread killer([&] {
    fake_.AwaitHang();
    fake_.Stop();
    std::this_thread::sleep_for(milliseconds(500));  // the while that it is away
    fake_.Start();
  });
  const auto result = Generate();
  killer.join();
  ASSERT_TRUE(result.ok()) << result.status();
  EXPECT_EQ(text_, FakeGeneration::Text());
  EXPECT_THAT(resumed_, ElementsAre(kFirst + 2));
}

// How long after the server listens again the rest of a stream takes.
milliseconds TimeToGoOn() {
  FakeGeneration fake;
  fake.Script({{.tokens = 3, .hang = true}});
  steady_clock::time_point back;
  std::thread killer([&] {
    fake.AwaitHang();
    fake.Stop();
    std::this_thread::sleep_for(milliseconds(500));  // the while that it is away
    fake.Start();
    back = steady_clock::now();
  });
  const auto client = Client::Connect({.server = fake.address()});
  std::string text;
  const auto result = client->Generate(
      {.session = "anna", .text = "abc", .stopping = {.max_tokens = kAnswer}},
      [&](const GenerateChunk& chunk) {
        text += chunk.text;
        return true;
      });
  const steady_clock::time_point end = steady_clock::now();
  killer.join();
  EXPECT_TRUE(result.ok()) << result.status();
  EXPECT_EQ(text, FakeGeneration::Text());
  return std::chrono::duration_cast<milliseconds>(end - back);
}

// Servers of the same process would do the client's polling for it, but for a gRPC that
// polls each channel apart; which one it does is settled once in a process.
TEST(ResumeDeathTest, AServerThatIsBackIsSeenAtOnce) {
  testing::FLAGS_gtest_death_test_style = "threadsafe";
  EXPECT_EXIT(
      {
        setenv("GRPC_POLL_STRATEGY", "poll", 1);
        const milliseconds time = TimeToGoOn();
        std::fprintf(stderr, "after %d ms\n", static_cast<int>(time.count()));
        std::_Exit(!testing::Test::HasFailure() && time < kPatience ? 0 : 1);
      },
      testing::ExitedWithCode(0), "");
}

TEST_F(ResumeTest, WhileTheServerIsThereThePausesPass) {
  ASSERT_TRUE(Generate().ok());
  const grpc::Status refusal(grpc::UNAVAILABLE, "not now");
  fake_.Script({{.status = refusal, .first_message = false},
                {.status = refusal, .first_message = false}});
  const auto begin = steady_clock::now();
  ASSERT_TRUE(Generate().ok());
  EXPECT_GE(steady_clock::now() - begin, milliseconds(160 + 320));
}

TEST_F(ResumeTest, TriesAndTimeAreBounded) {
  int waits = 0;
  Connect({.tries = 3, .on_wait = [&](const absl::Status&) { ++waits; }});
  ASSERT_TRUE(Generate().ok());
  fake_.Stop();
  EXPECT_EQ(Generate().status().code(), Code::kUnavailable);
  EXPECT_EQ(waits, 2);
  Connect({.on_wait = [&](const absl::Status&) { ++waits; }});
  // Never reached: perhaps another address was meant.
  EXPECT_EQ(Generate().status().code(), Code::kUnavailable);
  EXPECT_EQ(waits, 2);
  fake_.Start();
}

TEST_F(ResumeTest, TheDeadlineBoundsAllTries) {
  ASSERT_TRUE(Generate().ok());
  fake_.Stop();
  const absl::Status status =
      Generate({.session = "anna", .text = "abc", .deadline = milliseconds(1000)})
          .status();
  EXPECT_EQ(status.code(), Code::kDeadlineExceeded) << status;
  fake_.Start();
}

TEST_F(ResumeTest, CancellingEndsTheWait) {
  fake_.Script(
      {{.tokens = 1, .status = Typed(grpc::UNAVAILABLE, "DRAINING", 2 * kPatience)}});
  Connect({.limit = 3 * kPatience, .on_wait = [&](const absl::Status&) {
             std::thread([client = client_.get()] { client->CancelCalls(); }).join();
           }});
  const auto begin = steady_clock::now();
  EXPECT_EQ(Generate().status().code(), Code::kCancelled);
  EXPECT_LT(steady_clock::now() - begin, kPatience);
  // So does the caller of a stream that runs.
  stop_ = true;
  EXPECT_EQ(Generate().status().code(), Code::kCancelled);
  EXPECT_THAT(fake_.requests(), SizeIs(2));
}

TEST(Retries, PausesGrowWithinTriesAndTime) {
  Retries retries({.tries = 10, .limit = seconds(60)});
  Retries::TimePoint now;
  const Retries::TimePoint begin = now;
  milliseconds expected(200);
  for (int i = 1; i < 10; ++i) {
    const auto due = retries.Next(now, std::nullopt);
    ASSERT_TRUE(due);
    EXPECT_GE(*due - now, expected * 4 / 5);
    EXPECT_LE(*due - now, expected * 6 / 5);
    now = *due;
    expected = std::min(expected * 2, milliseconds(10000));
  }
  EXPECT_GT(now - begin, seconds(30));
  EXPECT_FALSE(retries.Next(now, std::nullopt));
  retries.Restart();
  EXPECT_EQ(*retries.Next(now, seconds(50)) - now, seconds(50));
  EXPECT_FALSE(retries.Next(now + seconds(50), seconds(11)));
}

TEST(Retries, AServerThatIsBackEndsThePause) {
  Retries retries({});
  Retries::TimePoint due;
  for (int i = 0; i < 4; ++i) due = *retries.Next({}, std::nullopt);
  const Retries::TimePoint back(milliseconds(700));
  EXPECT_GE(retries.Back(back), back + milliseconds(5));
  EXPECT_LE(retries.Back(back), back + milliseconds(50));
  EXPECT_EQ(retries.Back(due), due);
  due = *retries.Next({}, seconds(20));
  EXPECT_EQ(retries.Back(back), due);
}

}  // namespace
}  // namespace mnemon::client
