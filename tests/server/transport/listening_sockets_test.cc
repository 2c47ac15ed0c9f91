// SPDX-License-Identifier: MIT
#include "server/transport/listening_sockets.h"

#include <fcntl.h>

#include "base/error.h"
#include "gtest/gtest.h"
#include "tests/server/transport/sockets.h"

namespace mnemon {
namespace {

TEST(Listen, TakesAFreePortAndSharesItWithNobody) {
  const auto first = Listen({.host = "127.0.0.1", .port = 0}, "listen");
  ASSERT_TRUE(first.ok()) << first.status();
  ASSERT_EQ(first->sockets.size(), 1u);
  EXPECT_GT(first->port, 0);
  const int fd = first->sockets[0].get();
  EXPECT_TRUE(fcntl(fd, F_GETFL) & O_NONBLOCK);
  EXPECT_TRUE(fcntl(fd, F_GETFD) & FD_CLOEXEC);
  EXPECT_TRUE(ConnectTo(first->port).valid());
  const auto second = Listen({.host = "127.0.0.1", .port = first->port}, "listen");
  EXPECT_EQ(second.status().code(), absl::StatusCode::kUnavailable);
  EXPECT_EQ(GetErrorDetail(second.status())->reason, "LISTEN_FAILED");
  EXPECT_EQ(GetErrorDetail(second.status())->field, "listen");
}

TEST(Listen, ANameIsAllItsAddresses) {
  const auto all = Listen({.host = "localhost", .port = 0}, "listen");
  ASSERT_TRUE(all.ok()) << all.status();
  EXPECT_GE(all->sockets.size(), 1u);
  EXPECT_TRUE(ConnectTo(all->port).valid());
}

TEST(Listen, NamesWhatCannotBeBound) {
  const auto foreign = Listen({.host = "192.0.2.1", .port = 0}, "listen");
  EXPECT_EQ(foreign.status().code(), absl::StatusCode::kUnavailable);
  EXPECT_NE(std::string(foreign.status().message()).find("192.0.2.1"),
            std::string::npos);
}

}  // namespace
}  // namespace mnemon
