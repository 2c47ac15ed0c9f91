// SPDX-License-Identifier: MIT
#include "server/transport/connection_table.h"

#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/fakes/patience.h"
#include "tests/server/transport/sockets.h"

namespace mnemon {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;
using testing::ElementsAre;
using testing::IsEmpty;

std::shared_ptr<Connection> Make(const std::string& peer, Connection::Time at = {}) {
  return std::make_shared<Connection>(peer, Descriptor(), 8, at);
}

TEST(ConnectionTable, CountsInAllAndOfEachAddress) {
  ConnectionTable table(3, 2);
  const auto a1 = Make("192.0.2.1:1"), a2 = Make("192.0.2.1:2");
  const auto b = Make("192.0.2.2:1"), c = Make("192.0.2.3:1");
  table.Add(a1);
  EXPECT_EQ(table.WhyFull(*a2), std::nullopt);
  table.Add(a2);
  EXPECT_EQ(table.WhyFull(*Make("192.0.2.1:3")), RefusalReason::kHostLimit);
  EXPECT_EQ(table.WhyFull(*b), std::nullopt);
  table.Add(b);
  EXPECT_EQ(table.WhyFull(*c), RefusalReason::kLimit);
  table.Remove(*a1);
  table.Remove(*a1);  // without effect
  EXPECT_EQ(table.WhyFull(*c), std::nullopt);
  EXPECT_EQ(table.WhyFull(*Make("192.0.2.1:3")), std::nullopt);
  EXPECT_EQ(table.counts().open, 2);
  EXPECT_EQ(table.counts().accepted, 3);
}

TEST(ConnectionTable, FindsThePresentOwnerOfAPort) {
  ConnectionTable table(10, 10);
  const auto before = Make("192.0.2.1:1"), now = Make("192.0.2.1:1");
  table.Add(before);
  table.Add(now);
  EXPECT_EQ(table.Find("192.0.2.1:1"), now);
  table.Remove(*before);
  EXPECT_EQ(table.Find("192.0.2.1:1"), now);
  table.Remove(*now);
  EXPECT_EQ(table.Find("192.0.2.1:1"), nullptr);
  EXPECT_EQ(table.counts().open, 0);
  // And the address has no connection left.
  ConnectionTable one(10, 1);
  one.Add(before);
  one.Add(now);
  one.Remove(*now);
  EXPECT_EQ(one.WhyFull(*before), std::nullopt);
}

TEST(ConnectionTable, OwnConnectionsCountToNoLimit) {
  ConnectionTable table(1, 1);
  table.Add(Make("127.0.0.1:1"));
  const auto own = Make("127.0.0.1:2");
  EXPECT_EQ(table.WhyFull(*own), RefusalReason::kHostLimit);
  table.Expect("127.0.0.1:2");
  EXPECT_EQ(table.WhyFull(*own), std::nullopt);
  table.StopExpecting("127.0.0.1:2");
  EXPECT_EQ(table.WhyFull(*own), RefusalReason::kHostLimit);
}

TEST(ConnectionTable, TheLongestIdleComeFirst) {
  ConnectionTable table(10, 10);
  const Connection::Time start{};
  const auto old = Make("192.0.2.1:1", start);
  const auto busy = Make("192.0.2.1:2", start);
  const auto other = Make("192.0.2.2:1", start + milliseconds(1));
  const auto fresh = Make("192.0.2.1:3", start + seconds(9));
  busy->OnCallBegan();
  for (const auto& one : {old, busy, other, fresh}) table.Add(one);
  EXPECT_THAT(table.LongestIdle("", start + seconds(5), 10), ElementsAre(old, other));
  EXPECT_THAT(table.LongestIdle("", start + seconds(5), 1), ElementsAre(old));
  EXPECT_THAT(table.LongestIdle("192.0.2.2", start + seconds(5), 10),
              ElementsAre(other));
  table.Expect(old->peer());
  EXPECT_THAT(table.LongestIdle("192.0.2.1", start + seconds(5), 10), IsEmpty());
}

TEST(ConnectionTable, SilentOnesGoFirstAndThoseWhoseBytesArriveDoNot) {
  ConnectionTable table(10, 10);
  const Connection::Time now = std::chrono::steady_clock::now();
  const Connection::Time old = now - seconds(20);
  const auto used = Make("192.0.2.1:1", old);
  const auto upload = Make("192.0.2.1:2", old);
  const auto slow = Make("192.0.2.1:3", old + milliseconds(1));
  const auto silent = Make("192.0.2.1:4", now - seconds(5));
  const auto endless = Make("192.0.2.1:5", now - seconds(100));
  for (const auto& one : {used, upload, slow, silent, endless}) table.Add(one);
  used->NoteReceived(5000, now - seconds(3));
  upload->NoteReceived(100, now - seconds(3));
  upload->NoteReceived(200, now);
  slow->NoteReceived(40, now - seconds(3));
  slow->NoteReceived(41, now);
  endless->NoteReceived(100, now);
  EXPECT_THAT(table.LongestIdle("", now - seconds(1), 10),
              ElementsAre(silent, endless, used, slow));
}

TEST(ConnectionTable, CountsWhyConnectionsWereShutDown) {
  ConnectionTable table(10, 10);
  const SocketPair pair;
  const auto connection = pair.Accepted();
  table.Add(connection);
  EXPECT_TRUE(connection->ShutDown(ShutDownReason::kTraffic));
  EXPECT_FALSE(connection->ShutDown(ShutDownReason::kMemory));
  EXPECT_TRUE(IsClosed(pair.client));
  table.Remove(*connection);
  EXPECT_THAT(table.counts().shut_down, ElementsAre(0, 0, 1, 0, 0, 0, 0));
}

TEST(Connection, IsShutDownWhenItsPeerOpensTooManyCalls) {
  const SocketPair pair;
  const auto connection = pair.Accepted(2);
  connection->OnCallBegan();
  connection->OnCallBegan();
  connection->OnCallEnded(false, 0);
  connection->OnCallBegan();
  EXPECT_EQ(connection->shut_down(), std::nullopt);
  connection->OnCallBegan();
  EXPECT_EQ(connection->shut_down(), ShutDownReason::kCalls);
  EXPECT_TRUE(IsClosed(pair.client));
}

TEST(Connection, ReadsWhatTheSystemKnows) {
  const SocketPair pair;
  const auto connection = pair.Accepted();
  EXPECT_EQ(connection->Read().received_bytes, 0);
  ASSERT_EQ(send(pair.client.get(), "12345", 5, 0), 5);
  EXPECT_TRUE(Eventually([&] { return connection->Read().received_bytes == 5; }));
  ASSERT_EQ(send(pair.server.get(), "123", 3, 0), 3);
  EXPECT_TRUE(Eventually([&] { return connection->Read().acked_bytes >= 3; }));
}

}  // namespace
}  // namespace mnemon
