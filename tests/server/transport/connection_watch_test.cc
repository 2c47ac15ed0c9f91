// SPDX-License-Identifier: MIT
#include "server/transport/connection_watch.h"

#include <vector>

#include "gtest/gtest.h"
#include "tests/server/transport/sockets.h"

namespace mnemon {
namespace {

// Sends so many bytes, which the system of the other end takes though nobody reads.
void Send(const SocketPair& pair, const Connection& connection, size_t count) {
  const int size = 8 << 20;
  setsockopt(pair.server.get(), SOL_SOCKET, SO_RCVBUF, &size, sizeof(size));
  const std::vector<char> bytes(count);
  const int64_t before = connection.Read().received_bytes;
  ASSERT_EQ(send(pair.client.get(), bytes.data(), count, 0),
            static_cast<ssize_t>(count));
  ASSERT_TRUE(Soon([&] {
    return connection.Read().received_bytes == before + static_cast<int64_t>(count);
  }));
}

// 320 KiB that belong to no call are too many.
const ConnectionWatch::Options kSmall = {.limits = {.message_bytes = 64 << 10}};

ConnectionWatch::ReadStreams Streams(int64_t started, int64_t ended) {
  return [=](const std::string&) { return StreamCounts{started, ended}; };
}

TEST(ConnectionWatch, ShutsDownAConnectionWhoseBytesBelongToNoCall) {
  ConnectionTable table(10, 10);
  const SocketPair honest, flood;
  const auto good = honest.Accepted(), bad = flood.Accepted();
  table.Add(good);
  table.Add(bad);
  ConnectionWatch watch(table, kSmall, Streams(0, 0));
  watch.Check(true);
  Send(honest, *good, 500 << 10);
  Send(flood, *bad, 500 << 10);
  good->OnCallBegan();
  good->OnMessageReceived(500 << 10);
  watch.Check(true);
  EXPECT_EQ(good->shut_down(), std::nullopt);
  EXPECT_EQ(bad->shut_down(), ShutDownReason::kTraffic);
}

TEST(ConnectionWatch, BusyConnectionsAreCheckedInEachRound) {
  ConnectionTable table(10, 10);
  const SocketPair flood;
  const auto bad =
      flood.Accepted(8, std::chrono::steady_clock::now() - std::chrono::seconds(2));
  table.Add(bad);
  ConnectionWatch watch(table, kSmall, Streams(0, 0));
  watch.Check(true);
  // Nothing came lately: it waits for the next check of all.
  Send(flood, *bad, 100 << 10);
  watch.Check(false);
  watch.Check(true);
  Send(flood, *bad, 600 << 10);
  watch.Check(false);
  EXPECT_EQ(bad->shut_down(), ShutDownReason::kTraffic);
}

TEST(ConnectionWatch, NewConnectionsAreCheckedInEachRound) {
  ConnectionTable table(10, 10);
  ConnectionWatch watch(table, kSmall, Streams(0, 0));
  watch.Check(true);
  const SocketPair flood;
  const auto bad = flood.Accepted();
  table.Add(bad);
  watch.Check(false);
  Send(flood, *bad, 500 << 10);
  watch.Check(false);
  EXPECT_EQ(bad->shut_down(), ShutDownReason::kTraffic);
}

TEST(ConnectionWatch, WhenAllHoldTooMuchTheLargestEnds) {
  ConnectionTable table(10, 10);
  const SocketPair one, two;
  const auto small = one.Accepted(), large = two.Accepted();
  table.Add(small);
  table.Add(large);
  ConnectionWatch watch(table, {.most_in_flight = 1000}, Streams(0, 0));
  small->OnMessageReceived(400);
  large->OnMessageReceived(600);
  watch.Check(true);
  EXPECT_EQ(table.counts().in_flight_bytes, 1000);
  EXPECT_EQ(large->shut_down(), std::nullopt);
  small->OnMessageReceived(1);
  watch.Check(true);
  EXPECT_EQ(large->shut_down(), ShutDownReason::kMemory);
  EXPECT_EQ(small->shut_down(), std::nullopt);
  // Once its calls have ended nothing more has to go.
  large->OnCallEnded(false, 600);
  watch.Check(true);
  EXPECT_EQ(small->shut_down(), std::nullopt);
}

TEST(ConnectionWatch, BytesThatBecameAMessageAreNoLongerOnTheirWay) {
  ConnectionTable table(10, 10);
  const SocketPair pair;
  const auto connection = pair.Accepted();
  table.Add(connection);
  ConnectionWatch watch(table, kSmall, Streams(100, 0));
  watch.Check(true);
  Send(pair, *connection, 300 << 10);
  watch.Check(true);
  EXPECT_GT(table.counts().in_flight_bytes, 100 << 10);
  connection->OnCallBegan();
  connection->OnMessageReceived(300 << 10);
  connection->OnCallEnded(false, 300 << 10);
  watch.Check(true);
  EXPECT_EQ(table.counts().in_flight_bytes, 0);
}

TEST(ConnectionWatch, WhenAllHaveTooManyCallsTheOneWithMostEnds) {
  ConnectionTable table(10, 10);
  const SocketPair one, two;
  const auto few = one.Accepted(), many = two.Accepted();
  table.Add(few);
  table.Add(many);
  ConnectionWatch watch(table, {.most_calls = 3}, Streams(0, 0));
  few->OnCallBegan();
  for (int i = 0; i < 3; ++i) many->OnCallBegan();
  watch.Check(true);
  EXPECT_EQ(many->shut_down(), ShutDownReason::kCalls);
  EXPECT_EQ(few->shut_down(), std::nullopt);
}

TEST(ConnectionWatch, CountsStreamsThatNeverBecameCalls) {
  ConnectionTable table(10, 10);
  const SocketPair pair;
  const auto connection = pair.Accepted();
  table.Add(connection);
  int64_t ended = 5;
  ConnectionWatch watch(table, kSmall, [&](const std::string& peer) {
    EXPECT_EQ(peer, connection->peer());
    return StreamCounts{ended, ended};
  });
  connection->OnCallBegan();
  Send(pair, *connection, 100);
  watch.Check(true);
  EXPECT_EQ(table.counts().early_resets, 4);
  ended = 7;
  Send(pair, *connection, 100);
  watch.Check(true);
  EXPECT_EQ(table.counts().early_resets, 6);
}

TEST(ConnectionWatch, EndsAllAtTheGivenTime) {
  ConnectionTable table(10, 10);
  const SocketPair pair;
  const auto connection = pair.Accepted();
  table.Add(connection);
  ConnectionWatch watch(table, kSmall, Streams(0, 0));
  watch.ShutDownAllAt(std::chrono::steady_clock::now() + std::chrono::hours(1));
  watch.Check(true);
  EXPECT_EQ(connection->shut_down(), std::nullopt);
  watch.ShutDownAllAt(std::chrono::steady_clock::now());
  watch.Check(true);
  EXPECT_EQ(connection->shut_down(), ShutDownReason::kEnd);
}

TEST(ConnectionWatch, ItsThreadFindsFloodsByItself) {
  ConnectionTable table(10, 10);
  const SocketPair flood;
  const auto bad = flood.Accepted();
  table.Add(bad);
  ConnectionWatch watch(table, kSmall, Streams(0, 0));
  ASSERT_TRUE(watch.Start().ok());
  Send(flood, *bad, 500 << 10);
  EXPECT_TRUE(IsClosed(flood.client));
}

}  // namespace
}  // namespace mnemon
