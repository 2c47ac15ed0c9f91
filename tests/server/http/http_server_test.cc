// SPDX-License-Identifier: MIT
#include "server/http/http_server.h"

#include <atomic>
#include <chrono>
#include <memory>
#include <mutex>
#include <stdexcept>
#include <thread>
#include <utility>
#include <vector>

#include "base/strings.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/fakes/http_get.h"
#include "tests/fakes/http_peer.h"
#include "tests/fakes/patience.h"

namespace mnemon {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::Not;
using ::testing::StartsWith;

constexpr char kBody[] = "a_total 1\n";

class HttpServerTest : public ::testing::Test {
 protected:
  void SetUp() override {
    auto started = HttpServer::Start({.host = "127.0.0.1", .port = 0},
                                     [this](const auto& exchange) {
                                       if (fail_) throw std::runtime_error("x");
                                       exchange->Respond(Answer(exchange->request()));
                                     });
    ASSERT_TRUE(started.ok()) << started.status();
    server_ = *std::move(started);
    ASSERT_GT(server_->port(), 0);
  }
  static HttpResponse Answer(const HttpRequest& request) {
    if (request.path == "/echo") return {.body = request.method + " " + request.path};
    if (request.path == "/page") return {.type = "text/x", .body = kBody};
    return {.code = 405, .body = "no\n", .headers = {{"Allow", "GET"}}};
  }
  HttpAnswer Get(const std::string& path, const std::string& method = "GET") const {
    return HttpGet(server_->port(), path, method);
  }

  std::atomic<bool> fail_ = false;
  std::unique_ptr<HttpServer> server_;
};

void Nothing(const std::shared_ptr<HttpExchange>& exchange) { exchange->Respond({}); }

TEST_F(HttpServerTest, AnswersWithWhatTheHandlerReturns) {
  const HttpAnswer answer = Get("/page");
  EXPECT_EQ(answer.code, 200);
  EXPECT_EQ(answer.body, kBody);
  EXPECT_THAT(answer.headers,
              AllOf(HasSubstr("Content-Type: text/x\r\n"),
                    HasSubstr("Content-Length: 10"), HasSubstr("no-store\r\n"),
                    HasSubstr("Connection: close"), Not(HasSubstr("Allow"))));
  const HttpAnswer refused = Get("/other");
  EXPECT_EQ(refused.code, 405);
  EXPECT_THAT(refused.headers,
              AllOf(HasSubstr("Allow: GET"), HasSubstr("text/plain; charset=utf-8")));
}

TEST_F(HttpServerTest, TheHandlerSeesMethodAndPath) {
  EXPECT_EQ(Get("/echo?x=/page?y").body, "GET /echo");
  EXPECT_EQ(Get("/echo", "BREW").body, "BREW /echo");
  EXPECT_EQ(Get("/%65cho").code, 405);
}

TEST_F(HttpServerTest, HeadHasTheHeadersOnly) {
  const HttpAnswer answer = Get("/page", "HEAD");
  EXPECT_EQ(answer.code, 200);
  EXPECT_THAT(answer.headers, HasSubstr("Content-Length: 10"));
  EXPECT_THAT(answer.body, IsEmpty());
}

TEST_F(HttpServerTest, AnExceptionIsAnAnswer) {
  fail_ = true;
  EXPECT_EQ(Get("/page").code, 500);
  fail_ = false;
  EXPECT_EQ(Get("/page").code, 200);
}

TEST_F(HttpServerTest, LivesThroughJunk) {
  const int port = server_->port();
  for (const std::string& junk :
       {std::string("junk\r\n\r\n"), StrCat(std::string(1000, '\0'), "\r\n\r\n"),
        std::string("GET /page HTTP/9.9\r\n\r\n"),
        std::string("PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"), std::string("\r\n\r\n\r\n"),
        std::string("GET /page HTTP/1.1\r\nHost: x\r\nContent-Length: -1\r\n\r\n"),
        std::string("GET /page HTTP/1.1\r\nHost: x\r\nno colon\r\n\r\n")}) {
    EXPECT_THAT(SendRaw(port, junk), StartsWith("HTTP/1.1 400 ")) << junk;
  }
  SendRaw(port, StrCat("GET /page HTTP/1.1\r\nHost: x\r\nX: ",
                       std::string(1 << 20, 'x'), "\r\n\r\n"));
  EXPECT_EQ(Get("/page").code, 200);
}

TEST_F(HttpServerTest, ServesManyAtOnce) {
  std::atomic<int> good = 0;
  std::vector<std::thread> threads;
  for (int i = 0; i < 8; ++i) {
    threads.emplace_back([&] {
      for (int n = 0; n < 10; ++n) good += Get("/page").code == 200;
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(good, 80);
}

TEST_F(HttpServerTest, PortInUseIsUnavailable) {
  const auto second =
      HttpServer::Start({.host = "127.0.0.1", .port = server_->port()}, Nothing);
  EXPECT_EQ(second.status().code(), absl::StatusCode::kUnavailable);
  EXPECT_THAT(
      std::string(second.status().message()),
      AllOf(HasSubstr(StrCat("127.0.0.1:", server_->port())), HasSubstr("in use")));
}

TEST(HttpServer, EndsOnAnyAddress) {
  auto server = HttpServer::Start({.host = "0.0.0.0", .port = 0}, Nothing);
  ASSERT_TRUE(server.ok()) << server.status();
  server->reset();
}

TEST(HttpServer, StopLetsGoOfWhatAHandlerGave) {
  auto given = std::make_shared<int>();
  std::atomic<bool> reads = false;
  const auto server = HttpServer::Start(
      {.host = "127.0.0.1"}, [&](const std::shared_ptr<HttpExchange>& exchange) {
        exchange->ReadBody(
            100, {.keep = [](int64_t) { return true; },
                  .done = [given] {},
                  .refuse = [](int code) { return HttpResponse{.code = code}; }});
        reads = true;
      });
  ASSERT_TRUE(server.ok()) << server.status();
  HttpPeer peer((*server)->port());
  ASSERT_TRUE(peer.Send("POST / HTTP/1.1\r\nHost: x\r\nContent-Length: 9\r\n\r\nx"));
  ASSERT_TRUE(Eventually([&] { return reads.load(); }));
  EXPECT_EQ(given.use_count(), 2);
  (*server)->Stop();
  EXPECT_EQ(given.use_count(), 1);
  EXPECT_EQ(peer.ReadToTheEnd(), "");
}

TEST(HttpServer, AnswersThatComeLateAreAwaited) {
  std::mutex mutex;
  std::shared_ptr<HttpExchange> held;  // guarded by mutex
  const auto server = HttpServer::Start({.host = "127.0.0.1"},
                                        [&](std::shared_ptr<HttpExchange> exchange) {
                                          EXPECT_TRUE(exchange->Admit([] {}));
                                          std::lock_guard lock(mutex);
                                          held = std::move(exchange);
                                        });
  ASSERT_TRUE(server.ok()) << server.status();
  HttpPeer peer((*server)->port());
  ASSERT_TRUE(peer.Send("GET / HTTP/1.1\r\nHost: x\r\n\r\n"));
  const auto take = [&] {
    std::lock_guard lock(mutex);
    return std::exchange(held, nullptr);
  };
  std::shared_ptr<HttpExchange> exchange;
  ASSERT_TRUE(Eventually([&] { return (exchange = take()) != nullptr; }));
  EXPECT_FALSE((*server)->AwaitAnswers(std::chrono::milliseconds(30)));
  std::thread late([&] {
    std::this_thread::sleep_for(std::chrono::milliseconds(30));  // so it is awaited
    std::exchange(exchange, nullptr)->Respond({.body = "late\n"});
  });
  EXPECT_TRUE((*server)->AwaitAnswers(kPatience));
  (*server)->Stop();
  late.join();
  EXPECT_THAT(peer.ReadToTheEnd(), HasSubstr("late\n"));
}

TEST(HttpServer, TakesAName) {
  const auto server = HttpServer::Start({.host = "localhost", .port = 0}, Nothing);
  ASSERT_TRUE(server.ok()) << server.status();
  EXPECT_EQ(HttpGet((*server)->port(), "/").code, 200);
}

TEST(HttpServer, AnUnknownNameIsUnavailable) {
  const auto server =
      HttpServer::Start({.host = "no.such.invalid", .port = 1}, Nothing);
  EXPECT_EQ(server.status().code(), absl::StatusCode::kUnavailable);
  EXPECT_THAT(std::string(server.status().message()), HasSubstr("no.such.invalid:1"));
}

TEST(HttpServer, ListensOnV6OrSaysThatItCannot) {
  const auto server = HttpServer::Start({.host = "::1", .port = 0}, Nothing);
  if (server.ok()) {
    EXPECT_GT((*server)->port(), 0);
  } else {
    EXPECT_THAT(std::string(server.status().message()), HasSubstr("[::1]:0"));
  }
}

}  // namespace
}  // namespace mnemon
