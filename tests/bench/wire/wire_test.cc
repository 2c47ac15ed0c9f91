// SPDX-License-Identifier: MIT
// The bytes of frames, and what a peer understands, against a server of a few lines.
#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>

#include <set>
#include <thread>

#include "bench/wire/attack.h"
#include "bench/wire/frames.h"
#include "bench/wire/peer.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/fakes/patience.h"

namespace mnemon::wire {
namespace {

using std::chrono::steady_clock;
using ::testing::EndsWith;
using ::testing::StartsWith;

std::string Bytes(std::initializer_list<int> values) {
  std::string out;
  for (const int value : values) out.push_back(static_cast<char>(value));
  return out;
}

TEST(Frames, HaveTheirLengthTypeFlagsAndStreamBeforeThePayload) {
  EXPECT_EQ(Frame(FrameType::kData, kEndStream, 0x01020304, "abc"),
            Bytes({0, 0, 3, 0, 1, 1, 2, 3, 4}) + "abc");
  EXPECT_EQ(Frame(FrameType::kContinuation, 0, 1, std::string(70000, 'x')).substr(0, 4),
            Bytes({1, 0x11, 0x70, 9}));
  EXPECT_EQ(Settings({{kInitialWindowSetting, 65535}}),
            Bytes({0, 0, 6, 4, 0, 0, 0, 0, 0, 0, 4, 0, 0, 0xff, 0xff}));
  EXPECT_EQ(Reset(5), Bytes({0, 0, 4, 3, 0, 0, 0, 0, 5, 0, 0, 0, 8}));
}

TEST(Frames, FieldsAreLiteralsWithLengthsOfAnySize) {
  EXPECT_EQ(Literal("te", "x"), Bytes({0, 2, 't', 'e', 1, 'x'}));
  // RFC 7541, C.1.2: 1337 in a prefix of five bits is 31, 154, 10; of seven, 127 and
  // the rest.
  EXPECT_THAT(Literal("", std::string(1337, 'x')),
              StartsWith(Bytes({0, 0, 127, 0xba, 9, 'x'})));
  EXPECT_THAT(Literal("", std::string(127, 'x')), StartsWith(Bytes({0, 0, 127, 0})));
}

TEST(Frames, MessagesHaveTheirPrefix) {
  EXPECT_EQ(GrpcMessage("ab"), Bytes({0, 0, 0, 0, 2}) + "ab");
  EXPECT_THAT(WholeCall(3, "/a/B", "ab"),
              EndsWith(Frame(FrameType::kData, kEndStream, 3, GrpcMessage("ab"))));
}

// A socket that listens, and the connection to it.
class OneConnection {
 public:
  OneConnection() : listener_(socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0)) {
    sockaddr_in address = {};
    address.sin_family = AF_INET;
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    socklen_t length = sizeof(address);
    EXPECT_EQ(bind(listener_, reinterpret_cast<sockaddr*>(&address), length), 0);
    EXPECT_EQ(listen(listener_, 1), 0);
    getsockname(listener_, reinterpret_cast<sockaddr*>(&address), &length);
    port_ = ntohs(address.sin_port);
  }
  ~OneConnection() {
    Close();
    close(listener_);
  }

  int port() const { return port_; }
  // The address that the connection comes from, as it is in memory.
  uint32_t Accept() {
    sockaddr_in peer = {};
    socklen_t length = sizeof(peer);
    connection_ = accept(listener_, reinterpret_cast<sockaddr*>(&peer), &length);
    return ntohl(peer.sin_addr.s_addr);
  }
  void Write(const std::string& bytes) {
    EXPECT_EQ(send(connection_, bytes.data(), bytes.size(), MSG_NOSIGNAL),
              static_cast<ssize_t>(bytes.size()));
  }
  std::string Read(size_t count) {
    std::string bytes(count, '\0');
    const ssize_t got = recv(connection_, bytes.data(), count, MSG_WAITALL);
    return bytes.substr(0, got < 0 ? 0 : static_cast<size_t>(got));
  }
  void Close() {
    if (connection_ >= 0) close(std::exchange(connection_, -1));
  }

 private:
  const int listener_;
  int connection_ = -1;
  int port_ = 0;
};

class PeerTest : public ::testing::Test {
 protected:
  static TimePoint Soon() { return steady_clock::now() + kPatience; }

  OneConnection server_;
  Peer peer_{server_.port(), "127.0.9.8", Soon()};
};

TEST_F(PeerTest, ComesFromTheAddressThatItIsGiven) {
  ASSERT_TRUE(peer_.open());
  EXPECT_EQ(server_.Accept(), 0x7f000908u);
  const std::string opening = std::string(kPreface) + Settings({});
  EXPECT_TRUE(peer_.Start(Soon()));
  EXPECT_EQ(server_.Read(opening.size()), opening);
}

TEST_F(PeerTest, AnswersSettingsAndPings) {
  server_.Accept();
  server_.Write(Settings({}) + Ping(0) + Ping(kAck));
  while (peer_.open() && peer_.received().frames < 3) peer_.Read(Soon());
  const std::string answers = Frame(FrameType::kSettings, kAck, 0, {}) + Ping(kAck);
  EXPECT_TRUE(peer_.Send({}, Soon()));
  EXPECT_EQ(server_.Read(answers.size()), answers);
}

TEST_F(PeerTest, CountsWhatComesAndGivesWindowsBack) {
  server_.Accept();
  server_.Write(Frame(FrameType::kHeaders, kEndHeaders, 1, "h") +
                Frame(FrameType::kData, kEndStream, 1, "data") + Reset(3) + GoAway());
  while (peer_.open() && !peer_.received().go_away) peer_.Read(Soon());
  EXPECT_EQ(peer_.received().headers, 1);
  EXPECT_EQ(peer_.received().data_bytes, 4);
  EXPECT_EQ(peer_.received().resets, 1);
  EXPECT_EQ(peer_.received().ended, 2);
  const std::string answers = WindowUpdate(0, 4) + WindowUpdate(1, 4);
  EXPECT_EQ(server_.Read(answers.size()), answers);
}

TEST_F(PeerTest, SendsNoMoreDataThanWindowsLet) {
  server_.Accept();
  const std::string body(100'000, 'b');
  size_t sent = 0;
  std::thread reader([&] { server_.Read(kFirstWindow + 4 * kFrameHeaderBytes); });
  for (int i = 0; i < 4; ++i) sent += peer_.SendData(1, body, Soon());
  EXPECT_EQ(sent, static_cast<size_t>(kFirstWindow));
  reader.join();
  server_.Write(WindowUpdate(0, 100) + WindowUpdate(1, 30));
  while (peer_.open() && peer_.received().frames < 2) peer_.Read(Soon());
  EXPECT_EQ(peer_.SendData(1, body, Soon()), 30u);
  EXPECT_EQ(peer_.SendData(3, body, Soon()), 70u);
}

TEST_F(PeerTest, SeesThatTheServerHasClosed) {
  server_.Accept();
  server_.Close();
  peer_.Read(Soon());
  EXPECT_FALSE(peer_.open());
  EXPECT_FALSE(peer_.Send("x", Soon()));
}

// Nobody reads: what is left goes out with the next call, and no call waits for ever.
TEST_F(PeerTest, ASendEndsAtItsDeadline) {
  server_.Accept();
  const std::string much(8 << 20, 'x');
  const auto moment = [] { return steady_clock::now() + std::chrono::milliseconds(5); };
  EXPECT_TRUE(peer_.Send(much, moment()));
  EXPECT_FALSE(peer_.Send("y", moment()));
  EXPECT_TRUE(peer_.open());
}

TEST(Attacks, HaveNamesOfTheirOwn) {
  std::set<std::string> names;
  for (const Attack& attack : Attacks()) {
    EXPECT_TRUE(names.insert(attack.name).second) << attack.name;
  }
}

// A machine that stalls may use up an attack's time before its first connection: then
// it is given more.
TEST(Attacks, EndWhenNobodyListens) {
  const int port = OneConnection().port();
  for (const Attack& attack : Attacks()) {
    AttackTally tally;
    for (int time = 100; tally.refused == 0 && time <= 10000; time *= 10) {
      attack.run({.port = port,
                  .until = steady_clock::now() + std::chrono::milliseconds(time)},
                 tally);
    }
    EXPECT_EQ(tally.connections, 0) << attack.name;
    EXPECT_GT(tally.refused, 0) << attack.name;
  }
}

}  // namespace
}  // namespace mnemon::wire
