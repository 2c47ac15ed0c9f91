// SPDX-License-Identifier: MIT
#include "server/service/open_calls.h"

#include <sys/socket.h>

#include <chrono>
#include <future>
#include <memory>
#include <string>
#include <utility>

#include "base/attended_clock.h"
#include "gtest/gtest.h"
#include "tests/fakes/fake_clock.h"
#include "tests/fakes/patience.h"
#include "tests/server/transport/sockets.h"

namespace mnemon {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;

TEST(OpenCalls, WaitsForTheLast) {
  const FakeClock clock;
  OpenCalls calls(clock);
  int stopped = 0;
  const auto stop = [&](const absl::Status&) { ++stopped; };
  const auto cancel = [](const absl::Status&) { ADD_FAILURE(); };
  const auto a = calls.Add(stop, cancel, nullptr);
  const auto b = calls.Add(stop, cancel, nullptr);
  calls.StopAll(absl::AbortedError(""));
  EXPECT_EQ(stopped, 2);
  const auto late = calls.Add(stop, cancel, nullptr);
  EXPECT_EQ(stopped, 3) << "one that comes after it";
  calls.Remove(late);
  const auto now = std::chrono::steady_clock::now();
  calls.WaitEmpty(now);
  EXPECT_FALSE(calls.WaitDrained(now));
  calls.Remove(a);
  std::future<bool> waiting = std::async(
      std::launch::async, [&] { return calls.WaitDrained(now + kPatience); });
  EXPECT_EQ(waiting.wait_for(milliseconds(20)), std::future_status::timeout);
  calls.Remove(b);
  EXPECT_EQ(waiting.wait_for(kPatience), std::future_status::ready);
  EXPECT_TRUE(waiting.get());
}

// Of calls that wait: what the ends of idle ones write.
class WaitingCalls : public ::testing::Test {
 protected:
  std::shared_ptr<OpenCall> Add(
      const std::string& name, std::shared_ptr<const Connection> connection = nullptr) {
    return calls_.Add([this, name](const absl::Status&) { ended_ += name + " "; },
                      [this, name](const absl::Status&) { ended_ += name + "! "; },
                      std::move(connection));
  }
  // As a server does that looks for idle callers so long after it did so before.
  std::string EndIdleAfter(milliseconds time) {
    clock_.Advance(time);
    attended_.Attend();
    calls_.EndIdle(seconds(1), absl::AbortedError(""));
    return std::exchange(ended_, "");
  }

  FakeClock clock_;
  AttendedClock attended_{clock_, milliseconds(250)};
  OpenCalls calls_{attended_};
  std::string ended_;
};

TEST_F(WaitingCalls, ThoseThatWaitTooLongEnd) {
  const auto busy = Add("busy");
  const auto unopened = Add("unopened");
  const auto uncredited = Add("uncredited");
  const auto blocked = Add("blocked");
  busy->AwaitMessage();
  busy->TakeMessage();
  busy->AwaitTransport();
  busy->ResumeFromTransport();
  unopened->AwaitMessage();
  uncredited->AwaitCredits();
  blocked->AwaitTransport();
  for (int i = 0; i < 3; ++i) EXPECT_EQ(EndIdleAfter(milliseconds(250)), "");
  EXPECT_EQ(EndIdleAfter(milliseconds(249)), "");
  EXPECT_EQ(EndIdleAfter(milliseconds(1)), "unopened uncredited blocked blocked! ");
  for (int i = 0; i < 9; ++i) {
    EXPECT_EQ(EndIdleAfter(milliseconds(250)), "") << "once for each wait";
  }

  blocked->AwaitTransport();
  unopened->AwaitMessage();
  calls_.EndUnopened(absl::UnavailableError(""));
  EXPECT_EQ(std::exchange(ended_, ""), "unopened ");
  calls_.Remove(blocked);
  for (int i = 0; i < 9; ++i) EXPECT_EQ(EndIdleAfter(milliseconds(250)), "");
}

TEST_F(WaitingCalls, TheTimeInWhichTheServerDidNotRunIsNotTheirs) {
  const auto unopened = Add("unopened");
  const auto blocked = Add("blocked");
  unopened->AwaitMessage();
  blocked->AwaitTransport();
  // Stopped three times, and late each time: three slices have passed.
  for (int i = 0; i < 3; ++i) EXPECT_EQ(EndIdleAfter(seconds(3600)), "");
  EXPECT_EQ(EndIdleAfter(seconds(3600)), "unopened blocked blocked! ");
}

TEST_F(WaitingCalls, WhoHasSentWhatWasNotReadYetIsNotIdle) {
  const SocketPair pair;
  const auto call = Add("call", pair.Accepted());
  call->AwaitMessage();
  for (int i = 0; i < 3; ++i) EXPECT_EQ(EndIdleAfter(milliseconds(250)), "");
  ASSERT_EQ(send(pair.client.get(), "x", 1, 0), 1);
  // The server comes to read it only now, and the answer takes as long as before.
  EXPECT_EQ(EndIdleAfter(milliseconds(250)), "");
  char byte;
  ASSERT_EQ(recv(pair.server.get(), &byte, 1, 0), 1);
  for (int i = 0; i < 3; ++i) EXPECT_EQ(EndIdleAfter(milliseconds(250)), "");
  EXPECT_EQ(EndIdleAfter(milliseconds(250)), "call ");

  // One that leaves the server no time to read does not hold its call for ever.
  const auto other = Add("other", pair.Accepted());
  other->AwaitMessage();
  ASSERT_EQ(send(pair.client.get(), "x", 1, 0), 1);
  int looks = 0;
  while (EndIdleAfter(milliseconds(250)).empty() && looks < 1000) ++looks;
  EXPECT_EQ(looks, 4 * (1 + OpenCall::kMostRenewals) - 1);
}

TEST_F(WaitingCalls, WhoTakesWhatIsSentIsNotIdle) {
  const SocketPair pair;
  const auto call = Add("call", pair.Accepted());
  call->AwaitTransport();
  for (int i = 0; i < 3; ++i) EXPECT_EQ(EndIdleAfter(milliseconds(250)), "");
  // A part of a message gets through.
  const auto accepted = pair.Accepted();
  const int64_t before = accepted->Read().acked_bytes;
  ASSERT_EQ(send(pair.server.get(), "x", 1, 0), 1);
  ASSERT_TRUE(Eventually([&] { return accepted->Read().acked_bytes > before; }));
  for (int i = 0; i < 4; ++i) EXPECT_EQ(EndIdleAfter(milliseconds(250)), "");
  EXPECT_EQ(EndIdleAfter(milliseconds(250)), "call call! ");
}

TEST(OpenCalls, EndsABoundedNumberAtOnce) {
  const FakeClock clock;
  OpenCalls calls(clock);
  int ended = 0;
  constexpr int kCalls = 5000;
  for (int i = 0; i < kCalls; ++i) {
    calls
        .Add([&](const absl::Status&) { ++ended; }, [](const absl::Status&) {}, nullptr)
        ->AwaitTransport();
  }
  int rounds = 0;
  for (int before = 0; before < kCalls; before = ended, ++rounds) {
    calls.EndIdle(milliseconds(0), absl::AbortedError(""));
    ASSERT_GT(ended, before);
    EXPECT_LE(ended - before, 1024);
  }
  EXPECT_EQ(ended, kCalls);
}

}  // namespace
}  // namespace mnemon
