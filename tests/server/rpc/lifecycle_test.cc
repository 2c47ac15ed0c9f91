// SPDX-License-Identifier: MIT
// Start, drain and shutdown.
#include <arpa/inet.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>

#include <atomic>
#include <future>

#include "base/attended_clock.h"
#include "base/error.h"
#include "base/listen_address.h"
#include "gmock/gmock.h"
#include "server/service/call_serializer.h"
#include "server/service/open_calls.h"
#include "tests/fakes/fake_clock.h"
#include "tests/fakes/patience.h"
#include "tests/server/rpc/rig.h"
#include "tests/server/transport/sockets.h"

namespace mnemon {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;
using ::testing::HasSubstr;

constexpr char kReadyService[] = "mnemon.v1.Generation";

TEST(Start, PortInUseFailsClearly) {
  Rig rig;
  const auto service = *Service::Create(*rig.engine, {});
  auto second = RpcServer::Start(*service, {.listen = rig.address()});
  ASSERT_FALSE(second.ok());
  EXPECT_TRUE(absl::IsUnavailable(second.status()));
  EXPECT_THAT(second.status().message(), HasSubstr(rig.address()));
  EXPECT_THAT(second.status().message(), HasSubstr("in use"));
  EXPECT_TRUE(rig.client->ListModels().ok());
}

TEST(Start, PortIsFreeAfterwards) {
  Rig rig;
  const std::string address = rig.address();
  rig.server.reset();
  const auto service = *Service::Create(*rig.engine, {});
  auto again = RpcServer::Start(*service, {.listen = address});
  EXPECT_TRUE(again.ok()) << again.status();
}

TEST(Start, WrongAddresses) {
  Rig rig;
  const auto service = *Service::Create(*rig.engine, {});
  for (const char* listen : {"", "127.0.0.1", ":50051", "127.0.0.1:", "127.0.0.1:65536",
                             "127.0.0.1:-1", "127.0.0.1:1x", "::1:5", "a b:5",
                             "127.0.0.1:99999999999999999999", "unix:/tmp/x"}) {
    auto server = RpcServer::Start(*service, {.listen = listen});
    EXPECT_TRUE(absl::IsInvalidArgument(server.status())) << listen << server.status();
  }
  auto elsewhere = RpcServer::Start(*service, {.listen = "203.0.113.1:0"});
  EXPECT_TRUE(absl::IsUnavailable(elsewhere.status())) << elsewhere.status();
  EXPECT_THAT(elsewhere.status().message(), HasSubstr("203.0.113.1:0"));
}

TEST(ListenAddress, Parses) {
  EXPECT_EQ(ParseListenAddress("[::1]:7", "listen")->host, "::1");
  EXPECT_EQ(ParseListenAddress("[::1]:7", "listen")->Text(), "[::1]:7");
  EXPECT_EQ(ParseListenAddress("localhost:0", "listen")->port, 0);
}

TEST(Drain, RefusesNewWorkFinishesOldAndFlipsReadinessOnly) {
  Rig rig;
  ASSERT_TRUE(rig.client->CheckHealth("").ok());
  ASSERT_TRUE(rig.client->CheckHealth(kReadyService).ok());
  EXPECT_TRUE(absl::IsNotFound(rig.client->CheckHealth("nothing")));

  rig.decoder.Allow(3);
  std::future<Collected> running = std::async(std::launch::async, [&] {
    return Collect(*rig.NewClient(), {.tokens = {1}, .stopping = {.max_tokens = 100}});
  });
  rig.decoder.AwaitHeld();
  EXPECT_TRUE(rig.client->CheckHealth(StrCat(kReadyService, "/toy")).ok());
  rig.engine->Drain();
  rig.server->UpdateReadiness();
  EXPECT_TRUE(
      absl::IsUnavailable(rig.client->CheckHealth(StrCat(kReadyService, "/toy"))));
  EXPECT_TRUE(rig.client->CheckHealth("").ok());
  EXPECT_TRUE(absl::IsUnavailable(rig.client->CheckHealth(kReadyService)));
  for (const absl::Status& status :
       {Collect(*rig.client, {.tokens = {1}}).result.status(),
        rig.client->CreateSession("s", "").status()}) {
    EXPECT_TRUE(absl::IsUnavailable(status)) << status;
    EXPECT_EQ(GetErrorDetail(status)->reason, "DRAINING");
    EXPECT_TRUE(GetErrorDetail(status)->retry_after.has_value());
  }
  EXPECT_TRUE(rig.client->ListModels().ok());

  std::future<void> closed =
      std::async(std::launch::async, [&] { rig.server->Shutdown(2 * kPatience); });
  EXPECT_EQ(closed.wait_for(milliseconds(50)), std::future_status::timeout);
  rig.decoder.AllowAll();
  Collected got = running.get();
  EXPECT_TRUE(got.result.ok()) << got.result.status();
  EXPECT_EQ(got.tokens.size(), 100u);
  EXPECT_EQ(closed.wait_for(kPatience), std::future_status::ready);
}

TEST(Shutdown, EndsStreamsWithATypedErrorAfterTheGrace) {
  Rig rig;
  rig.decoder.Allow(3);
  std::future<Collected> running = std::async(std::launch::async, [&] {
    return Collect(*rig.NewClient(), {.tokens = {1}, .stopping = {.max_tokens = 100}});
  });
  rig.decoder.AwaitHeld();
  rig.server->Shutdown(milliseconds(50));
  rig.decoder.AllowAll();
  Collected got = running.get();
  EXPECT_TRUE(absl::IsUnavailable(got.result.status())) << got.result.status();
  EXPECT_EQ(GetErrorDetail(got.result.status())->reason, "DRAINING");
  EXPECT_TRUE(rig.engine->WaitIdle(kPatience));
}

TEST(Shutdown, SecondCallShortensTheFirst) {
  Rig rig;
  rig.decoder.Allow(0);
  std::future<Collected> running = std::async(std::launch::async, [&] {
    return Collect(*rig.NewClient(), {.tokens = {1}, .stopping = {.max_tokens = 100}});
  });
  rig.decoder.AwaitHeld();
  std::future<void> first =
      std::async(std::launch::async, [&] { rig.server->Shutdown(2 * kPatience); });
  EXPECT_EQ(first.wait_for(milliseconds(50)), std::future_status::timeout);
  rig.server->Shutdown(milliseconds(0));
  EXPECT_EQ(first.wait_for(kPatience), std::future_status::ready);
  rig.decoder.AllowAll();
  EXPECT_FALSE(running.get().result.ok());
}

TEST(Shutdown, IdleServerStopsAtOnce) {
  Rig rig;
  ASSERT_TRUE(rig.client->ListModels().ok());
  const auto begin = std::chrono::steady_clock::now();
  rig.server->Shutdown(2 * kPatience);
  EXPECT_LT(std::chrono::steady_clock::now() - begin, kPatience);
  EXPECT_TRUE(absl::IsUnavailable(rig.client->ListModels().status()));
}

// A connection that does not speak HTTP/2 is closed and disturbs no other.
TEST(Wire, JunkIsClosed) {
  Rig rig;
  for (const std::string& junk :
       {std::string("GET / HTTP/1.1\r\n\r\n"), std::string("\x16\x03\x01\x02\x00", 5),
        std::string(1000, '\xff'), std::string("PRI * HTTP/2.0\r\n")}) {
    const int fd = socket(AF_INET, SOCK_STREAM, 0);
    sockaddr_in address = {};
    address.sin_family = AF_INET;
    address.sin_port = htons(static_cast<uint16_t>(rig.server->port()));
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    ASSERT_EQ(connect(fd, reinterpret_cast<sockaddr*>(&address), sizeof(address)), 0);
    EXPECT_GT(send(fd, junk.data(), junk.size(), MSG_NOSIGNAL), 0);
    close(fd);
  }
  EXPECT_TRUE(
      Collect(*rig.client, {.tokens = {1}, .stopping = {.max_tokens = 5}}).result.ok());
}

TEST(CallSerializer, HasOneHolderAndLosesNoRequest) {
  CallSerializer turn;
  EXPECT_FALSE(turn.Acquire());
  EXPECT_FALSE(turn.Release());
  EXPECT_TRUE(turn.Release());
  EXPECT_TRUE(turn.Acquire());
  EXPECT_FALSE(turn.AcquireToStop(absl::AbortedError("first")));
  EXPECT_FALSE(turn.AcquireToStop(absl::AbortedError("second")));
  EXPECT_FALSE(turn.Release());
  EXPECT_EQ(turn.stop()->message(), "first");
}

TEST(Readiness, FollowsTheQueueAndComesBack) {
  Rig rig({.engine = {.running = 1, .max_queue = 1}});
  rig.decoder.Allow(0);
  const auto start = [&] {
    return std::async(std::launch::async, [&] {
      return Collect(*rig.NewClient(), {.tokens = {1}, .stopping = {.max_tokens = 3}});
    });
  };
  std::future<Collected> running = start();
  rig.decoder.AwaitHeld();
  std::future<Collected> waiting = start();
  ASSERT_TRUE(Eventually([&] { return rig.engine->Stats().models[0].waiting == 1; }));
  EXPECT_FALSE(rig.engine->Stats().models[0].ready);
  EXPECT_EQ(rig.engine->Stats().models[0].max_waiting, 1);
  rig.server->UpdateReadiness();
  for (const std::string& service :
       {std::string(kReadyService), StrCat(kReadyService, "/toy")}) {
    EXPECT_TRUE(absl::IsUnavailable(rig.client->CheckHealth(service))) << service;
  }
  EXPECT_TRUE(
      absl::IsNotFound(rig.client->CheckHealth(StrCat(kReadyService, "/other"))));
  EXPECT_TRUE(rig.client->CheckHealth("").ok());
  rig.decoder.AllowAll();
  EXPECT_TRUE(running.get().result.ok());
  EXPECT_TRUE(waiting.get().result.ok());
  rig.server->UpdateReadiness();
  EXPECT_TRUE(rig.client->CheckHealth(kReadyService).ok());
  EXPECT_TRUE(rig.client->CheckHealth(StrCat(kReadyService, "/toy")).ok());
}

TEST(Readiness, GoesWithAReasonOfTheProcess) {
  std::atomic<bool> blocked = true;
  Rig rig(
      {.rpc = {.unready = [&] { return std::string(blocked ? "log blocked" : ""); }}});
  EXPECT_TRUE(absl::IsUnavailable(rig.client->CheckHealth(kReadyService)));
  EXPECT_TRUE(
      absl::IsUnavailable(rig.client->CheckHealth(StrCat(kReadyService, "/toy"))));
  EXPECT_TRUE(rig.client->CheckHealth("").ok());
  blocked = false;
  rig.server->UpdateReadiness();
  EXPECT_TRUE(rig.client->CheckHealth(StrCat(kReadyService, "/toy")).ok());
}

TEST(Readiness, AFullQueueIsThatOfItsModelOnly) {
  Rig rig({.models = {"full", "free"}, .engine = {.running = 1, .max_queue = 1}});
  rig.decoder.Allow(0);
  const auto start = [&](const std::string& model) {
    return std::async(std::launch::async, [&rig, model] {
      return Collect(*rig.NewClient(),
                     {.model = model, .tokens = {1}, .stopping = {.max_tokens = 3}});
    });
  };
  std::future<Collected> running = start("full");
  rig.decoder.AwaitHeld();
  std::future<Collected> waiting = start("full");
  EXPECT_TRUE(Eventually([&] { return rig.engine->Stats().models[0].waiting == 1; }));
  const absl::Status refused =
      Collect(*rig.client,
              {.model = "full", .tokens = {1}, .stopping = {.max_tokens = 3}})
          .result.status();
  EXPECT_TRUE(absl::IsResourceExhausted(refused)) << refused;
  rig.server->UpdateReadiness();
  EXPECT_TRUE(
      absl::IsUnavailable(rig.client->CheckHealth(StrCat(kReadyService, "/full"))));
  EXPECT_TRUE(rig.client->CheckHealth(StrCat(kReadyService, "/free")).ok());
  // Admitted; its step waits for the turn that the held step has.
  std::future<Collected> other = start("free");
  EXPECT_TRUE(Eventually([&] { return rig.engine->Stats().models[1].running == 1; }));
  rig.decoder.AllowAll();
  for (std::future<Collected>* call : {&running, &waiting, &other}) {
    const Collected got = call->get();
    EXPECT_TRUE(got.result.ok()) << got.result.status();
    EXPECT_EQ(got.tokens.size(), 3u);
  }
}

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

// Log lines of waiting calls that end because they are idle.
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
