// SPDX-License-Identifier: MIT
// Start, drain and shutdown.
#include <arpa/inet.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>

#include <atomic>
#include <future>

#include "base/error.h"
#include "base/listen_address.h"
#include "gmock/gmock.h"
#include "tests/fakes/patience.h"
#include "tests/server/rpc/rig.h"

namespace mnemon {
namespace {

using std::chrono::milliseconds;
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

}  // namespace
}  // namespace mnemon
