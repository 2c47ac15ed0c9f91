// SPDX-License-Identifier: MIT
#include "server/transport/connection_watch.h"

#include <vector>

#include "gtest/gtest.h"
#include "tests/fakes/fake_clock.h"
#include "tests/fakes/patience.h"
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
  ASSERT_TRUE(Eventually([&] {
    return connection.Read().received_bytes == before + static_cast<int64_t>(count);
  }));
}

constexpr auto kSuspects = ConnectionWatch::Scope::kSuspects;
constexpr auto kBusy = ConnectionWatch::Scope::kBusy;
constexpr auto kAll = ConnectionWatch::Scope::kAll;

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
  watch.Check(kAll);
  Send(honest, *good, 500 << 10);
  Send(flood, *bad, 500 << 10);
  good->OnCallBegan();
  good->OnMessageReceived(500 << 10);
  watch.Check(kAll);
  EXPECT_EQ(good->shut_down(), std::nullopt);
  EXPECT_EQ(bad->shut_down(), ShutDownReason::kTraffic);
}

TEST(ConnectionWatch, NotesWhoseBytesArrive) {
  ConnectionTable table(10, 10);
  const SocketPair one, two;
  const auto start = std::chrono::steady_clock::now() - std::chrono::seconds(2);
  const auto upload = one.Accepted(8, start), silent = two.Accepted(8, start);
  table.Add(upload);
  table.Add(silent);
  ConnectionWatch watch(table, kSmall, Streams(1, 0));
  Send(one, *upload, 100);
  watch.Check(kAll);
  const auto now = std::chrono::steady_clock::now();
  EXPECT_TRUE(upload->greeted());
  EXPECT_TRUE(upload->arriving(now));
  EXPECT_FALSE(upload->arriving(now + std::chrono::seconds(2)));
  EXPECT_FALSE(silent->greeted());
  EXPECT_FALSE(silent->arriving(now));
}

TEST(ConnectionWatch, BusyConnectionsAreCheckedInEachRound) {
  ConnectionTable table(10, 10);
  const SocketPair flood;
  const auto bad =
      flood.Accepted(8, std::chrono::steady_clock::now() - std::chrono::seconds(2));
  table.Add(bad);
  ConnectionWatch watch(table, kSmall, Streams(0, 0));
  watch.Check(kAll);
  // Nothing came lately: it waits for the next check of all.
  Send(flood, *bad, 100 << 10);
  watch.Check(kBusy);
  watch.Check(kAll);
  Send(flood, *bad, 600 << 10);
  watch.Check(kBusy);
  EXPECT_EQ(bad->shut_down(), ShutDownReason::kTraffic);
}

TEST(ConnectionWatch, NewConnectionsAreCheckedInEachRound) {
  ConnectionTable table(10, 10);
  ConnectionWatch watch(table, kSmall, Streams(0, 0));
  watch.Check(kAll);
  const SocketPair flood;
  const auto bad = flood.Accepted();
  table.Add(bad);
  watch.Check(kBusy);
  Send(flood, *bad, 500 << 10);
  watch.Check(kBusy);
  EXPECT_EQ(bad->shut_down(), ShutDownReason::kTraffic);
}

TEST(ConnectionWatch, SuspectsAreCheckedInEveryRound) {
  ConnectionTable table(10, 10);
  const SocketPair one, two;
  const auto now = std::chrono::steady_clock::now();
  const auto good = one.Accepted(), bad = two.Accepted(8, now, 0.5);
  table.Add(good);
  table.Add(bad);
  ConnectionWatch watch(table, kSmall, Streams(0, 0));
  Send(one, *good, 500 << 10);
  Send(two, *bad, 500 << 10);
  watch.Check(kSuspects);
  EXPECT_EQ(good->shut_down(), std::nullopt);
  EXPECT_EQ(bad->shut_down(), ShutDownReason::kTraffic);
  watch.Check(kBusy);
  EXPECT_EQ(good->shut_down(), ShutDownReason::kTraffic);
}

TEST(ConnectionWatch, ShutsDownSilentConnectionsAndNoIdleOnes) {
  ConnectionTable table(10, 10);
  const SocketPair silent, idle;
  const auto bad = silent.Accepted(), good = idle.Accepted();
  table.Add(good);
  table.Add(bad);
  Send(idle, *good, 33);
  Send(silent, *bad, 32);
  FakeClock clock;
  ConnectionWatch watch(table, kSmall, Streams(0, 0), clock);
  watch.Check(kAll);
  // The process was stopped: the client may have had no answer to greet for.
  clock.Advance(std::chrono::hours(1));
  watch.Check(kAll);
  EXPECT_EQ(bad->shut_down(), std::nullopt);
  for (int i = 0; i < 38; ++i) {
    clock.Advance(std::chrono::milliseconds(250));
    watch.Check(kAll);
  }
  EXPECT_EQ(bad->shut_down(), std::nullopt);
  for (int i = 0; i < 4; ++i) {
    clock.Advance(std::chrono::milliseconds(250));
    watch.Check(kAll);
  }
  EXPECT_EQ(good->shut_down(), std::nullopt);
  EXPECT_EQ(bad->shut_down(), ShutDownReason::kSilent);
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
  watch.Check(kAll);
  EXPECT_EQ(table.counts().in_flight_bytes, 1000);
  EXPECT_EQ(large->shut_down(), std::nullopt);
  small->OnMessageReceived(1);
  watch.Check(kAll);
  EXPECT_EQ(large->shut_down(), ShutDownReason::kMemory);
  EXPECT_EQ(small->shut_down(), std::nullopt);
  // Once its calls have ended nothing more has to go.
  large->OnCallEnded(false, 600);
  watch.Check(kAll);
  EXPECT_EQ(small->shut_down(), std::nullopt);
}

TEST(ConnectionWatch, BytesThatBecameAMessageAreNoLongerOnTheirWay) {
  ConnectionTable table(10, 10);
  const SocketPair pair;
  const auto connection = pair.Accepted();
  table.Add(connection);
  ConnectionWatch watch(table, kSmall, Streams(100, 0));
  watch.Check(kAll);
  Send(pair, *connection, 300 << 10);
  watch.Check(kAll);
  EXPECT_GT(table.counts().in_flight_bytes, 100 << 10);
  connection->OnCallBegan();
  connection->OnMessageReceived(300 << 10);
  connection->OnCallEnded(false, 300 << 10);
  watch.Check(kAll);
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
  watch.Check(kAll);
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
  watch.Check(kAll);
  EXPECT_EQ(table.counts().early_resets, 4);
  ended = 7;
  Send(pair, *connection, 100);
  watch.Check(kAll);
  EXPECT_EQ(table.counts().early_resets, 6);
}

TEST(ConnectionWatch, EndsAllAtTheGivenTime) {
  ConnectionTable table(10, 10);
  const SocketPair pair;
  const auto connection = pair.Accepted();
  table.Add(connection);
  ConnectionWatch watch(table, kSmall, Streams(0, 0));
  watch.ShutDownAllAt(std::chrono::steady_clock::now() + std::chrono::hours(1));
  watch.Check(kAll);
  EXPECT_EQ(connection->shut_down(), std::nullopt);
  watch.ShutDownAllAt(std::chrono::steady_clock::now());
  watch.Check(kAll);
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
