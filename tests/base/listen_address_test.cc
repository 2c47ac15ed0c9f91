// SPDX-License-Identifier: MIT
#include "base/listen_address.h"

#include <arpa/inet.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <sys/socket.h>

#include "base/error.h"
#include "gtest/gtest.h"

namespace mnemon {
namespace {

// Whether a client can connect to 127.0.0.1:port.
bool Accepts(int port) {
  const Descriptor fd(socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
  sockaddr_in address = {};
  address.sin_family = AF_INET;
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  address.sin_port = htons(static_cast<uint16_t>(port));
  return connect(fd.get(), reinterpret_cast<sockaddr*>(&address), sizeof(address)) == 0;
}

TEST(Listen, TakesAFreePortAndSharesItWithNobody) {
  const auto first = Listen({.host = "127.0.0.1", .port = 0}, "listen");
  ASSERT_TRUE(first.ok()) << first.status();
  ASSERT_EQ(first->sockets.size(), 1u);
  EXPECT_GT(first->port, 0);
  const int fd = first->sockets[0].get();
  EXPECT_TRUE(fcntl(fd, F_GETFL) & O_NONBLOCK);
  EXPECT_TRUE(fcntl(fd, F_GETFD) & FD_CLOEXEC);
  EXPECT_TRUE(Accepts(first->port));
  const auto second = Listen({.host = "127.0.0.1", .port = first->port}, "listen");
  EXPECT_EQ(second.status().code(), absl::StatusCode::kUnavailable);
  EXPECT_EQ(GetErrorDetail(second.status())->reason, "LISTEN_FAILED");
  EXPECT_EQ(GetErrorDetail(second.status())->field, "listen");
}

TEST(Listen, ANameIsAllItsAddresses) {
  const auto all = Listen({.host = "localhost", .port = 0}, "listen");
  ASSERT_TRUE(all.ok()) << all.status();
  EXPECT_GE(all->sockets.size(), 1u);
  EXPECT_TRUE(Accepts(all->port));
}

TEST(Listen, NamesWhatCannotBeBound) {
  const auto foreign = Listen({.host = "192.0.2.1", .port = 0}, "listen");
  EXPECT_EQ(foreign.status().code(), absl::StatusCode::kUnavailable);
  EXPECT_NE(std::string(foreign.status().message()).find("192.0.2.1"),
            std::string::npos);
}

}  // namespace
}  // namespace mnemon
