// SPDX-License-Identifier: MIT
#include "server/transport/listener.h"

#include <linux/tcp.h>
#include <sys/resource.h>

#include <mutex>
#include <vector>

#include "gtest/gtest.h"
#include "tests/fakes/patience.h"
#include "tests/server/transport/sockets.h"

namespace mnemon {
namespace {

// A listener whose accepted connections are kept open.
struct Rig {
  explicit Rig(int64_t limit = 100, int64_t host_limit = 100,
               const Listener::Options& options = {})
      : table(limit, host_limit) {
    auto opened = Listener::Open({.host = "127.0.0.1", .port = 0}, table, options);
    EXPECT_TRUE(opened.ok()) << opened.status();
    listener = *std::move(opened);
  }
  void Start() {
    EXPECT_TRUE(listener
                    ->Start([this](Descriptor fd) {
                      std::lock_guard lock(mutex);
                      accepted.push_back(std::move(fd));
                    })
                    .ok());
  }
  int64_t count() {
    std::lock_guard lock(mutex);
    return static_cast<int64_t>(accepted.size());
  }
  // Whether it takes this connection, as the one of that number, rather than close it.
  bool Takes(const Descriptor& client, int64_t number) {
    bool taken = false;
    const auto seen = [&] {
      taken = count() >= number;
      return taken || !client.valid() || IsClosed(client, std::chrono::milliseconds(0));
    };
    return Eventually(seen) && taken;
  }
  // A connection that it takes, and the client's end: one that waits for long is
  // closed, and the next one comes.
  std::shared_ptr<Connection> Open(Descriptor& client) {
    std::shared_ptr<Connection> taken;
    EXPECT_TRUE(Eventually([&] {
      if (!client.valid() || IsClosed(client, std::chrono::milliseconds(0))) {
        client = ConnectTo(listener->port());
      }
      taken = client.valid() ? table.Find(OwnText(client)) : nullptr;
      return taken != nullptr;
    }));
    return taken;
  }
  int64_t refused(RefusalReason reason) const {
    return table.counts().refused[static_cast<size_t>(reason)];
  }

  ConnectionTable table;
  std::mutex mutex;
  std::vector<Descriptor> accepted;  // guarded by mutex
  std::unique_ptr<Listener> listener;
};

TEST(Listener, ConnectionsWaitUntilItStarts) {
  Rig rig;
  const Descriptor early = ConnectTo(rig.listener->port());
  ASSERT_TRUE(early.valid());
  EXPECT_EQ(rig.count(), 0);
  rig.Start();
  ASSERT_TRUE(Eventually([&] { return rig.count() == 1; }));
  const int fd = rig.accepted[0].get();
  EXPECT_TRUE(fcntl(fd, F_GETFL) & O_NONBLOCK);
  EXPECT_TRUE(fcntl(fd, F_GETFD) & FD_CLOEXEC);
  int value = 0;
  socklen_t size = sizeof(value);
  getsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &value, &size);
  EXPECT_EQ(value, 1);
  getsockopt(fd, IPPROTO_TCP, TCP_USER_TIMEOUT, &value, &size);
  EXPECT_EQ(value, Listener::kUserTimeout.count());
  EXPECT_NE(rig.table.Find(OwnText(early)), nullptr);
}

TEST(Listener, NoticesTheEndOfAConnection) {
  Rig rig;
  rig.Start();
  const Descriptor client = ConnectTo(rig.listener->port());
  ASSERT_TRUE(Eventually([&] { return rig.count() == 1; }));
  EXPECT_EQ(rig.table.counts().open, 1);
  // As gRPC ends a connection.
  shutdown(rig.accepted[0].get(), SHUT_RDWR);
  rig.accepted.clear();
  EXPECT_TRUE(Eventually([&] { return rig.table.counts().open == 0; }));
  EXPECT_TRUE(IsClosed(client));
}

TEST(Listener, HandsNothingOnOnceItHasStopped) {
  Rig rig;
  rig.Start();
  rig.listener->StopAccepting();
  const Descriptor late = ConnectTo(rig.listener->port());
  EXPECT_TRUE(!late.valid() || IsClosed(late));
  EXPECT_EQ(rig.count(), 0);
  EXPECT_EQ(rig.table.counts().open, 0);
}

TEST(Listener, RefusesBeyondTheLimitsWhileNoneIsIdle) {
  Rig rig(2, 2);
  rig.Start();
  const Descriptor one = ConnectTo(rig.listener->port());
  const Descriptor two = ConnectTo(rig.listener->port());
  ASSERT_TRUE(Eventually([&] { return rig.count() == 2; }));
  for (const auto& connection : rig.table.All()) connection->OnCallBegan();
  const Descriptor three = ConnectTo(rig.listener->port());
  EXPECT_TRUE(IsClosed(three));
  EXPECT_EQ(rig.refused(RefusalReason::kHostLimit), 1);
  EXPECT_EQ(rig.count(), 2);
}

TEST(Listener, TheLongestIdleMakesRoom) {
  Rig rig(2, 2);
  const auto begin = std::chrono::steady_clock::now();
  rig.Start();
  const Descriptor idle = ConnectTo(rig.listener->port());
  ASSERT_TRUE(Eventually([&] { return rig.count() == 1; }));
  const Descriptor busy = ConnectTo(rig.listener->port());
  ASSERT_TRUE(Eventually([&] { return rig.count() == 2; }));
  rig.table.Find(OwnText(busy))->OnCallBegan();
  // One that came within the last second may be about to begin a call.
  const bool taken = rig.Takes(ConnectTo(rig.listener->port()), 3);
  if (std::chrono::steady_clock::now() - begin < std::chrono::seconds(1)) {
    EXPECT_FALSE(taken);
  }
  EXPECT_TRUE(
      Eventually([&] { return rig.Takes(ConnectTo(rig.listener->port()), 3); }));
  EXPECT_TRUE(IsClosed(idle));
  EXPECT_EQ(rig.table.Find(OwnText(busy))->shut_down(), std::nullopt);
}

TEST(Listener, ASilentOneMakesRoomBeforeOneWhoseBytesArrive) {
  Rig rig(2, 2);
  rig.Start();
  const Descriptor upload = ConnectTo(rig.listener->port());
  ASSERT_TRUE(Eventually([&] { return rig.count() == 1; }));
  const auto connection = rig.table.Find(OwnText(upload));
  const Descriptor silent = ConnectTo(rig.listener->port());
  ASSERT_TRUE(Eventually([&] { return rig.count() == 2; }));
  // For the whole test, however long that takes.
  connection->NoteReceived(100,
                           std::chrono::steady_clock::now() + std::chrono::hours(1));
  // Each of these makes room when it has been silent for a second.
  for (int64_t more = 1; more <= 2; ++more) {
    EXPECT_TRUE(Eventually(
        [&] { return rig.Takes(ConnectTo(rig.listener->port()), 2 + more); }));
    EXPECT_EQ(connection->shut_down(), std::nullopt);
  }
  EXPECT_TRUE(IsClosed(silent));
}

TEST(Listener, TheRateIsBounded) {
  Rig rig(100, 100, {.accepts_per_second = 5});
  const auto start = std::chrono::steady_clock::now();
  rig.Start();
  std::vector<Descriptor> clients;
  for (int i = 0; i < 8; ++i) clients.push_back(ConnectTo(rig.listener->port()));
  ASSERT_TRUE(Eventually([&] { return rig.count() == 8; }));
  // Five at once, one more before the pause, and two at five per second.
  EXPECT_GE(std::chrono::steady_clock::now() - start, std::chrono::milliseconds(390));
}

TEST(Listener, AnAddressWhoseConnectionsWereAbusiveHasToWait) {
  Rig rig;
  rig.Start();
  // Strikes are forgotten with time: a machine that is busy elsewhere tries again.
  const auto waits = [&] {
    // Until the pace is at its slowest, a second between two.
    for (int i = 0; i < 7; ++i) {
      Descriptor abusive;
      const auto taken = rig.Open(abusive);
      if (taken == nullptr) return false;
      taken->ShutDown(ShutDownReason::kTraffic);
      EXPECT_TRUE(Eventually([&] { return rig.table.counts().open == 0; }));
    }
    const auto start = std::chrono::steady_clock::now();
    Descriptor next;
    const auto taken = rig.Open(next);
    return taken != nullptr && taken->allowance() < 0.1 &&
           std::chrono::steady_clock::now() - start > std::chrono::milliseconds(500);
  };
  EXPECT_TRUE(Eventually(waits));
  // The server's own connections are taken, too.
  const Descriptor own(socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
  sockaddr_in address = {};
  address.sin_family = AF_INET;
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  ASSERT_EQ(bind(own.get(), reinterpret_cast<sockaddr*>(&address), sizeof(address)), 0);
  rig.table.Expect(OwnText(own));
  address.sin_port = htons(static_cast<uint16_t>(rig.listener->port()));
  ASSERT_EQ(connect(own.get(), reinterpret_cast<sockaddr*>(&address), sizeof(address)),
            0);
  EXPECT_TRUE(Eventually([&] { return rig.table.Find(OwnText(own)) != nullptr; }));
}

TEST(Listener, AcceptsAgainOnceThereAreDescriptors) {
  Rig rig;
  rig.Start();
  const Descriptor before = ConnectTo(rig.listener->port());
  ASSERT_TRUE(Eventually([&] { return rig.count() == 1; }));
  // A socket that is made while there are descriptors, and connected when there are
  // none.
  Descriptor refused(socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
  std::vector<Descriptor> taken;
  rlimit files = {};
  ASSERT_EQ(getrlimit(RLIMIT_NOFILE, &files), 0);
  const rlimit few = {.rlim_cur = 128, .rlim_max = files.rlim_max};
  ASSERT_EQ(setrlimit(RLIMIT_NOFILE, &few), 0);
  for (;;) {
    Descriptor one(open("/dev/null", O_RDONLY | O_CLOEXEC));
    if (!one.valid()) break;
    taken.push_back(std::move(one));
  }
  sockaddr_in address = {};
  address.sin_family = AF_INET;
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  address.sin_port = htons(static_cast<uint16_t>(rig.listener->port()));
  ASSERT_EQ(
      connect(refused.get(), reinterpret_cast<sockaddr*>(&address), sizeof(address)),
      0);
  EXPECT_TRUE(IsClosed(refused));
  EXPECT_TRUE(
      Eventually([&] { return rig.refused(RefusalReason::kDescriptors) == 1; }));
  EXPECT_TRUE(rig.table.counts().paused);
  taken.clear();
  ASSERT_EQ(setrlimit(RLIMIT_NOFILE, &files), 0);
  // One that comes at once may still be among those that are refused.
  EXPECT_TRUE(
      Eventually([&] { return rig.Takes(ConnectTo(rig.listener->port()), 2); }));
  EXPECT_FALSE(rig.table.counts().paused);
}

TEST(Listener, ListensAnewOnTheSamePort) {
  Rig rig;
  rig.Start();
  const Descriptor before = ConnectTo(rig.listener->port());
  ASSERT_TRUE(Eventually([&] { return rig.count() == 1; }));
  rig.listener->Reopen();
  EXPECT_TRUE(
      Eventually([&] { return rig.Takes(ConnectTo(rig.listener->port()), 2); }));
  // What was open stays open.
  EXPECT_NE(rig.table.Find(OwnText(before)), nullptr);
}

TEST(ConnectionsFor, LeavesDescriptorsForOtherUses) {
  EXPECT_EQ(ConnectionsFor(1024, 60), 450);
  EXPECT_EQ(ConnectionsFor(64, 60), 1);
  EXPECT_GE(OpenDescriptors(), 3);
  EXPECT_GT(DescriptorLimit(), OpenDescriptors());
}

}  // namespace
}  // namespace mnemon
