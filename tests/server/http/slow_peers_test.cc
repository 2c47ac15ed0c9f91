// SPDX-License-Identifier: MIT
// Peers of the HTTP server that are slow, silent, many or large: each is bounded, and
// others are answered meanwhile.
#include <chrono>
#include <deque>

#include "base/strings.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "server/http/http_server.h"
#include "server/http/probes.h"
#include "tests/fakes/http_get.h"
#include "tests/fakes/http_peer.h"
#include "tests/fakes/patience.h"

namespace mnemon {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;
using ::testing::HasSubstr;
using ::testing::StartsWith;
using Clock = std::chrono::steady_clock;

class SlowPeers : public ::testing::Test {
 protected:
  void Start(milliseconds timeout) {
    auto started = HttpServer::Start(
        {.host = "127.0.0.1", .port = 0, .timeout = timeout},
        [sources =
             ProbeSources{.stats = [] { return EngineStats(); },
                          .metrics = [this](const EngineStats&) { return body_; }}](
            const auto& exchange) {
          exchange->Respond(AnswerProbe(sources, exchange->request()));
        });
    ASSERT_TRUE(started.ok()) << started.status();
    server_ = *std::move(started);
  }
  int port() const { return server_->port(); }
  // Others are answered, unless their own time is over, as on a busy machine.
  void ExpectOthersAreAnswered() const {
    const auto start = Clock::now();
    HttpAnswer answer;
    do {
      answer = HttpGet(port(), "/metrics");
    } while (answer.code != 200 && Clock::now() - start < kPatience);
    EXPECT_EQ(answer.code, 200);
    EXPECT_EQ(answer.body, body_);
  }

  std::string body_ = "a_total 1\n";
  std::unique_ptr<HttpServer> server_;
};

constexpr milliseconds kShort{300};

TEST_F(SlowPeers, ByteByByteIsClosedWhenItsTimeIsOver) {
  Start(kShort);
  const auto start = Clock::now();
  HttpPeer peer(port());
  ASSERT_TRUE(peer.Send("GET /metrics HTTP/1.1\r\nHost: x\r\nX: "));
  // Every byte is progress, and none of them buys time.
  int sent = 0;
  while (!peer.Readable(milliseconds(5)) && Clock::now() - start < kPatience) {
    if (sent == 0) ExpectOthersAreAnswered();
    peer.Send("x");
    ++sent;
  }
  EXPECT_GT(sent, 0);
  EXPECT_GE(Clock::now() - start, kShort);
  EXPECT_LT(Clock::now() - start, kPatience);
  EXPECT_EQ(peer.ReadToTheEnd(), "");
}

TEST_F(SlowPeers, SilenceIsClosedWhenItsTimeIsOver) {
  Start(kShort);
  const auto start = Clock::now();
  HttpPeer peer(port());
  EXPECT_EQ(peer.ReadToTheEnd(), "");
  EXPECT_GE(Clock::now() - start, kShort);
  EXPECT_LT(Clock::now() - start, kPatience);
}

TEST_F(SlowPeers, ARequestInPiecesIsAnswered) {
  Start(kPatience);
  HttpPeer peer(port());
  for (const char* piece : {"GE", "T /metr", "ics HTTP/1.1\r", "\nHost: x\r\n", "\r"}) {
    ASSERT_TRUE(peer.Send(piece));
    ASSERT_FALSE(peer.Readable(milliseconds(5))) << piece;
  }
  ASSERT_TRUE(peer.Send("\n"));
  EXPECT_THAT(peer.ReadToTheEnd(), StartsWith("HTTP/1.1 200 OK\r\n"));
}

TEST_F(SlowPeers, WhoNeverReadsLosesTheRestOfItsAnswer) {
  body_ = std::string(8 << 20, 'x');
  Start(kShort);
  std::deque<HttpPeer> peers;
  for (int i = 0; i < 4; ++i) {
    ASSERT_TRUE(peers.emplace_back(port(), 4096)
                    .Send("GET /metrics HTTP/1.1\r\nHost: x\r\n\r\n"));
  }
  // The first bytes are there, the rest does not fit.
  for (HttpPeer& peer : peers) ASSERT_TRUE(peer.Readable(kPatience));
  while (HttpGet(port(), "/healthz").code != 200) continue;
  // Accepted after them, so when this one is closed they are.
  EXPECT_EQ(HttpPeer(port()).ReadToTheEnd(), "");
  for (HttpPeer& peer : peers) EXPECT_LT(peer.ReadToTheEnd().size(), body_.size());
}

TEST_F(SlowPeers, SilentPeersBeyondTheLimitDoNotKeepOthersOut) {
  Start(2 * kPatience);
  std::deque<HttpPeer> peers;
  for (int i = 0; i < 200; ++i) {
    peers.emplace_back(port());
    if (i % 50 == 0) ExpectOthersAreAnswered();
  }
  ExpectOthersAreAnswered();
  // The oldest gave way, the newest are still welcome.
  EXPECT_EQ(peers.front().ReadToTheEnd(), "");
  ASSERT_TRUE(peers.back().Send("GET /healthz HTTP/1.1\r\nHost: x\r\n\r\n"));
  EXPECT_THAT(peers.back().ReadToTheEnd(), StartsWith("HTTP/1.1 200 OK\r\n"));
  int open = 0;
  for (HttpPeer& peer : peers) open += !peer.Readable(milliseconds(0));
  EXPECT_GT(open, 50);
  EXPECT_LE(open, 64);
}

// More silent peers than there are places come between every two pieces.
TEST_F(SlowPeers, ARequestThatArrivesKeepsItsPlaceBeforeSilentPeers) {
  constexpr int kPieces = 10;
  const std::string piece(100, 'x');
  Start(seconds(60));
  HttpPeer upload(port());
  ASSERT_TRUE(upload.Send(
      StrCat("POST /metrics HTTP/1.1\r\nHost: x\r\n", "X-Long: ", piece, "\r\n")));
  for (int i = 0; i < kPieces; ++i) {
    ASSERT_TRUE(upload.Send(StrCat("X-", i, ": ", piece, "\r\n")));
    std::deque<HttpPeer> silent;
    for (int k = 0; k < 100; ++k) silent.emplace_back(port());
    // All were accepted, and the first of them have given way.
    EXPECT_EQ(silent.front().ReadToTheEnd(), "");
    ExpectOthersAreAnswered();
    ASSERT_FALSE(upload.Readable(milliseconds(0))) << i;
  }
  ASSERT_TRUE(upload.Send("\r\n"));
  EXPECT_THAT(upload.ReadToTheEnd(), StartsWith("HTTP/1.1 405 "));
}

// They are as many as may keep their places, and the slow ones of them give way.
TEST_F(SlowPeers, PeersThatArriveForEverDoNotKeepOthersOut) {
  Start(seconds(60));
  std::deque<HttpPeer> peers;
  for (int i = 0; i < 100; ++i) {
    ASSERT_TRUE(peers.emplace_back(port()).Send(
        StrCat("GET /metrics HTTP/1.1\r\nX: ", std::string(200, 'x'))));
    if (i % 25 == 0) ExpectOthersAreAnswered();
  }
  ExpectOthersAreAnswered();
}

TEST_F(SlowPeers, AHugeHeaderIsRefusedWhileItComes) {
  Start(kPatience);
  HttpPeer peer(port());
  ASSERT_TRUE(peer.Send("GET /metrics HTTP/1.1\r\nHost: x\r\nX: "));
  // Without an end; refused long before a megabyte is sent.
  for (int i = 0; i < 64 && !peer.Readable(milliseconds(0)); ++i) {
    ASSERT_TRUE(peer.Send(std::string(1024, 'x')));
    if (i >= 16) peer.Readable(kPatience);
  }
  const std::string answer = peer.ReadToTheEnd();
  EXPECT_THAT(answer, StartsWith("HTTP/1.1 431 "));
  EXPECT_THAT(answer, HasSubstr(R"({"error":{"code":"HEADER_TOO_LARGE",)"));
  ExpectOthersAreAnswered();
  // Complete and just within the limit.
  const std::string fits = StrCat(
      "GET /metrics HTTP/1.1\r\nHost: x\r\nX: ", std::string(16000, 'x'), "\r\n\r\n");
  EXPECT_THAT(SendRaw(port(), fits), StartsWith("HTTP/1.1 200 OK\r\n"));
  EXPECT_THAT(SendRaw(port(), StrCat("GET /metrics HTTP/1.1\r\nHost: x\r\nX: ",
                                     std::string(16384, 'x'), "\r\n\r\n")),
              StartsWith("HTTP/1.1 431 "));
}

// A time-out that passes while the server is being closed, and open connections then,
// are harmless.
TEST_F(SlowPeers, OpenConnectionsDoNotHoldUpTheEnd) {
  body_ = std::string(8 << 20, 'x');
  Start(2 * kPatience);
  std::deque<HttpPeer> peers;
  for (int i = 0; i < 8; ++i) peers.emplace_back(port(), 4096);
  ASSERT_TRUE(peers[0].Send("GET /metrics HTTP/1.1\r\nHost: x\r\n\r\n"));
  ASSERT_TRUE(peers[1].Send("GET /metr"));
  ASSERT_TRUE(peers[0].Readable(kPatience));
  const auto start = Clock::now();
  server_.reset();
  EXPECT_LT(Clock::now() - start, kPatience);
  for (HttpPeer& peer : peers) peer.ReadToTheEnd();
}

TEST_F(SlowPeers, ABodyIsReadAndDropped) {
  Start(kPatience);
  HttpPeer peer(port());
  ASSERT_TRUE(peer.Send(
      StrCat("POST /metrics HTTP/1.1\r\nHost: x\r\nContent-Length: 65536\r\n\r\n",
             std::string(65536, 'x'))));
  const std::string answer = peer.ReadToTheEnd();
  EXPECT_THAT(answer, StartsWith("HTTP/1.1 405 "));
  EXPECT_THAT(answer, HasSubstr("Allow: GET, HEAD\r\n"));
  EXPECT_THAT(
      SendRaw(port(), "HEAD /nothing HTTP/1.1\r\nHost: x\r\n\r\n"),
      ::testing::AllOf(StartsWith("HTTP/1.1 404 "), ::testing::EndsWith("\r\n\r\n")));
}

}  // namespace
}  // namespace mnemon
