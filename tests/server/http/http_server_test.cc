// SPDX-License-Identifier: MIT
#include "server/http/http_server.h"

#include <atomic>
#include <stdexcept>
#include <thread>
#include <vector>

#include "base/strings.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/fakes/http_get.h"

namespace mnemon {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

class HttpServerTest : public ::testing::Test {
 protected:
  void SetUp() override {
    auto started = HttpServer::Start({.host = "127.0.0.1",
                                      .port = 0,
                                      .metrics = [this]() -> std::string {
                                        if (fail_) throw std::runtime_error("x");
                                        return body_;
                                      },
                                      .not_ready = [this] { return why_; }});
    ASSERT_TRUE(started.ok()) << started.status();
    server_ = *std::move(started);
    ASSERT_GT(server_->port(), 0);
  }
  HttpAnswer Get(const std::string& path, const std::string& method = "GET") const {
    return HttpGet(server_->port(), path, method);
  }

  std::string body_ = "a_total 1\n";
  std::string why_;
  std::atomic<bool> fail_ = false;
  std::unique_ptr<HttpServer> server_;
};

TEST_F(HttpServerTest, Metrics) {
  const HttpAnswer answer = Get("/metrics");
  EXPECT_EQ(answer.code, 200);
  EXPECT_EQ(answer.body, "a_total 1\n");
  EXPECT_THAT(answer.headers,
              AllOf(HasSubstr("Content-Type: text/plain; version=0.0.4"),
                    HasSubstr("Content-Length: 10")));
  EXPECT_EQ(Get("/metrics?x=1").code, 200);
}

TEST_F(HttpServerTest, ReadinessFlipsAndLivenessDoesNot) {
  EXPECT_EQ(Get("/readyz").code, 200);
  why_ = "draining";
  EXPECT_EQ(Get("/readyz").code, 503);
  EXPECT_EQ(Get("/readyz").body, "draining\n");
  EXPECT_EQ(Get("/healthz").code, 200);
}

TEST_F(HttpServerTest, HeadHasTheHeadersOnly) {
  const HttpAnswer answer = Get("/metrics", "HEAD");
  EXPECT_EQ(answer.code, 200);
  EXPECT_THAT(answer.headers, HasSubstr("Content-Length: 10"));
  EXPECT_THAT(answer.body, IsEmpty());
}

TEST_F(HttpServerTest, NothingElseIsThere) {
  for (const char* path : {"/", "/metrics/", "/metricsx", "/etc/passwd",
                           "/../../etc/passwd", "/%2e%2e/etc/passwd"}) {
    EXPECT_THAT(Get(path).code, ::testing::AnyOf(404, 400)) << path;
  }
  for (const char* method : {"POST", "PUT", "DELETE", "OPTIONS"}) {
    EXPECT_EQ(Get("/metrics", method).code, 405) << method;
  }
}

TEST_F(HttpServerTest, AFailureIsAnAnswer) {
  fail_ = true;
  EXPECT_EQ(Get("/metrics").code, 500);
  EXPECT_EQ(Get("/healthz").code, 200);
}

TEST_F(HttpServerTest, LivesThroughJunk) {
  const int port = server_->port();
  SendRaw(port, "junk\r\n\r\n");
  SendRaw(port, StrCat(std::string(1000, '\0'), "\r\n\r\n"));
  SendRaw(port, StrCat("GET /metrics HTTP/1.1\r\nX: ", std::string(1 << 20, 'x'),
                       "\r\n\r\n"));
  SendRaw(port, "GET /metrics HTTP/9.9\r\n\r\n");
  SendRaw(port, "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n");
  EXPECT_EQ(Get("/metrics").code, 200);
}

TEST_F(HttpServerTest, ServesManyAtOnce) {
  std::atomic<int> good = 0;
  std::vector<std::thread> threads;
  for (int i = 0; i < 8; ++i) {
    threads.emplace_back([&] {
      for (int n = 0; n < 10; ++n) good += Get("/metrics").code == 200;
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(good, 80);
}

TEST_F(HttpServerTest, PortInUseIsUnavailable) {
  const auto second = HttpServer::Start({.host = "127.0.0.1",
                                         .port = server_->port(),
                                         .metrics = [] { return ""; },
                                         .not_ready = [] { return ""; }});
  EXPECT_EQ(second.status().code(), absl::StatusCode::kUnavailable);
  EXPECT_THAT(std::string(second.status().message()),
              HasSubstr(StrCat("127.0.0.1:", server_->port())));
}

TEST(HttpServer, EndsAtOnce) {
  auto server = HttpServer::Start({.host = "0.0.0.0",
                                   .port = 0,
                                   .metrics = [] { return ""; },
                                   .not_ready = [] { return ""; }});
  ASSERT_TRUE(server.ok()) << server.status();
  const auto start = std::chrono::steady_clock::now();
  server->reset();
  EXPECT_LT(std::chrono::steady_clock::now() - start, std::chrono::milliseconds(1500));
}

TEST(HttpServer, TakesAName) {
  const auto server = HttpServer::Start({.host = "localhost",
                                         .port = 0,
                                         .metrics = [] { return ""; },
                                         .not_ready = [] { return ""; }});
  ASSERT_TRUE(server.ok()) << server.status();
  EXPECT_EQ(HttpGet((*server)->port(), "/healthz").code, 200);
}

TEST(HttpServer, ListensOnV6OrSaysThatItCannot) {
  const auto server = HttpServer::Start({.host = "::1",
                                         .port = 0,
                                         .metrics = [] { return ""; },
                                         .not_ready = [] { return ""; }});
  if (server.ok()) {
    EXPECT_GT((*server)->port(), 0);
  } else {
    EXPECT_THAT(std::string(server.status().message()), HasSubstr("IPv4"));
  }
}

}  // namespace
}  // namespace mnemon
