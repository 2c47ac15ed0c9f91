// SPDX-License-Identifier: MIT
// Connections of a whole server: what its calls do is entered in them, and a connection
// that is shut down ends its calls.
#include <sys/resource.h>

#include <chrono>
#include <string>
#include <thread>
#include <vector>

#include "base/descriptor.h"
#include "gtest/gtest.h"
#include "server/rpc/port_probe.h"
#include "server/rpc/transport.h"
#include "tests/fakes/patience.h"
#include "tests/server/rpc/rig.h"
#include "tests/server/transport/sockets.h"

namespace mnemon {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;

// What a client sends first: the preface and empty settings.
std::string Preface() {
  std::string bytes = "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n";
  bytes.append("\0\0\0\4\0\0\0\0\0", 9);
  return bytes;
}

std::string EmptyFrames(int type, int count) {
  std::string frame(9, '\0');
  frame[3] = static_cast<char>(type);
  std::string frames;
  for (int i = 0; i < count; ++i) frames += frame;
  return frames;
}

// As much as the server takes, until it ends the connection; false when it does not.
bool SendUntilCut(const Descriptor& fd, const std::string& bytes) {
  const auto deadline = std::chrono::steady_clock::now() + kPatience;
  while (std::chrono::steady_clock::now() < deadline) {
    if (send(fd.get(), bytes.data(), bytes.size(), MSG_NOSIGNAL) < 0) return true;
  }
  return false;
}

int64_t ShutDown(const RpcServer& server, ShutDownReason reason) {
  return server.connections().shut_down[static_cast<size_t>(reason)];
}

TEST(Transport, FramesOfNoCallEndTheirConnectionAndNoOther) {
  Rig rig;
  ASSERT_TRUE(
      Collect(*rig.client, {.text = "a", .stopping = {.max_tokens = 3}}).result.ok());
  const Descriptor flood = ConnectTo(rig.server->port());
  const std::string preface = Preface();
  ASSERT_EQ(send(flood.get(), preface.data(), preface.size(), 0),
            static_cast<ssize_t>(preface.size()));
  // Empty settings that acknowledge nothing would be answered; unknown frames are
  // ignored for ever.
  EXPECT_TRUE(SendUntilCut(flood, EmptyFrames(0x77, 1000)));
  EXPECT_TRUE(
      Eventually([&] { return ShutDown(*rig.server, ShutDownReason::kTraffic) == 1; }));
  EXPECT_TRUE(
      Collect(*rig.client, {.text = "b", .stopping = {.max_tokens = 3}}).result.ok());
}

TEST(Transport, ManyHonestCallsAreNoFlood) {
  Rig rig;
  const std::string prompt(400, 'a');
  for (int i = 0; i < 3000; ++i) {
    ASSERT_TRUE(rig.client->CheckHealth("").ok()) << i;
  }
  for (int i = 0; i < 30; ++i) {
    const Collected all =
        Collect(*rig.client, {.text = prompt, .stopping = {.max_tokens = 20}});
    ASSERT_TRUE(all.result.ok()) << all.result.status();
  }
  for (const ShutDownReason reason :
       {ShutDownReason::kTraffic, ShutDownReason::kResets, ShutDownReason::kCalls,
        ShutDownReason::kMemory}) {
    EXPECT_EQ(ShutDown(*rig.server, reason), 0) << Name(reason);
  }
}

TEST(Transport, HeadersWithoutEndEndTheirConnectionBeforeAMessageWould) {
  Rig rig;
  const Descriptor flood = ConnectTo(rig.server->port());
  std::string start = Preface();
  // HEADERS of stream 1 that go on: a literal field whose value has 64 MB.
  start.append(std::string("\0\0\x09\1\0\0\0\0\1", 9));
  start.append(std::string("\0\1x\x7f\x81\xfa\xc1\x1e\0", 9));
  ASSERT_EQ(send(flood.get(), start.data(), start.size(), 0),
            static_cast<ssize_t>(start.size()));
  std::string more("\0\x40\0\x09\0\0\0\0\1", 9);  // CONTINUATION
  more.append(16384, 'a');
  // As much as could be a message on its way is less than 4 MiB and a half.
  size_t sent = 0;
  for (; sent < (3 << 20); sent += more.size()) {
    if (send(flood.get(), more.data(), more.size(), MSG_NOSIGNAL) < 0) break;
  }
  EXPECT_TRUE(
      Eventually([&] { return ShutDown(*rig.server, ShutDownReason::kTraffic) == 1; }));
}

TEST(Transport, TheGreatestMessageMayBeTheFirst) {
  Rig rig;
  for (int i = 0; i < 5; ++i) {
    const auto client = rig.NewClient();
    // As large as a message may be, and far more tokens than the model's context.
    const Collected all = Collect(*client, {.text = std::string((4 << 20) - 100, 'a'),
                                            .stopping = {.max_tokens = 3}});
    EXPECT_EQ(all.result.status().code(), absl::StatusCode::kInvalidArgument)
        << all.result.status();
  }
  EXPECT_EQ(ShutDown(*rig.server, ShutDownReason::kTraffic), 0);
}

TEST(Transport, TheLimitOfConnectionsHoldsAndIdleOnesMakeRoom) {
  Rig rig({.rpc = {.max_connections = 4}});  // two of one address
  ASSERT_TRUE(rig.client->CheckHealth("").ok());
  const Descriptor second = ConnectTo(rig.server->port());
  const Descriptor third = ConnectTo(rig.server->port());
  EXPECT_TRUE(IsClosed(third));
  // Those that begin no call lose their place.
  EXPECT_TRUE(Eventually([&] { return rig.NewClient()->CheckHealth("").ok(); }));
  EXPECT_LE(rig.server->connections().open, 3);  // with the server's own
}

TEST(Transport, TheServerReachesItsOwnPort) {
  Rig rig({.rpc = {.max_connections = 1}});
  const Descriptor other = ConnectTo(rig.server->port());
  const int64_t accepted = rig.server->connections().accepted;
  EXPECT_TRUE(
      Eventually([&] { return rig.server->connections().accepted >= accepted + 2; }));
  EXPECT_EQ(rig.server->WhyUnreachable(), "");
}

TEST(Transport, StreamsAreCountedByPeer) {
  Rig rig;
  Descriptor client = ConnectTo(rig.server->port());
  const std::string peer = OwnText(client);
  StreamCountReader reader;
  EXPECT_EQ(reader.Read("192.0.2.1:1"), std::nullopt);
  const std::string preface = Preface();
  ASSERT_EQ(send(client.get(), preface.data(), preface.size(), 0),
            static_cast<ssize_t>(preface.size()));
  EXPECT_TRUE(Eventually([&] { return reader.Read(peer).has_value(); }));
  EXPECT_EQ(reader.Read(peer)->started, 0);
}

TEST(PortProbe, TellsAndActsWhenNobodyListens) {
  ConnectionTable table(10, 10);
  sockaddr_storage address = {};
  {
    // A port that was free just now.
    const SocketPair pair;
    socklen_t size = sizeof(address);
    getsockname(pair.server.get(), reinterpret_cast<sockaddr*>(&address), &size);
  }
  std::mutex mutex;
  int reopened = 0;
  std::string gave_up;
  const auto probe = PortProbe::Start(address, table,
                                      {.period = milliseconds(1),
                                       .unreachable_after = 2,
                                       .give_up_after = 7,
                                       .reopen =
                                           [&] {
                                             std::lock_guard lock(mutex);
                                             ++reopened;
                                           },
                                       .give_up =
                                           [&](const std::string& why) {
                                             std::lock_guard lock(mutex);
                                             gave_up = why;
                                           }});
  ASSERT_TRUE(probe.ok());
  EXPECT_TRUE(Eventually([&] {
    std::lock_guard lock(mutex);
    return !gave_up.empty();
  }));
  std::lock_guard lock(mutex);
  EXPECT_EQ(reopened, 3);
  EXPECT_NE(gave_up.find("own port does not answer"), std::string::npos);
  EXPECT_NE((*probe)->WhyUnreachable(), "");
}

TEST(PortProbe, CanBeStoppedAtAnyMomentAndTwice) {
  Rig rig;
  sockaddr_storage address = {};
  socklen_t size = sizeof(address);
  const Descriptor client = ConnectTo(rig.server->port());
  getpeername(client.get(), reinterpret_cast<sockaddr*>(&address), &size);
  ConnectionTable table(10, 10);
  for (int i = 0; i < 200; ++i) {
    const auto probe = PortProbe::Start(address, table, {.period = milliseconds(0)});
    ASSERT_TRUE(probe.ok());
    std::this_thread::sleep_for(std::chrono::microseconds(20 * i));  // the moment
    (*probe)->Stop();
  }
}

}  // namespace
}  // namespace mnemon
