// SPDX-License-Identifier: MIT
// Plain sockets of loopback for tests.
#pragma once

#include <arpa/inet.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <poll.h>
#include <sys/socket.h>

#include <chrono>
#include <memory>
#include <string>

#include "base/descriptor.h"
#include "base/strings.h"
#include "gtest/gtest.h"
#include "server/transport/connection.h"
#include "tests/fakes/patience.h"

namespace mnemon {

// Connected to 127.0.0.1:port; invalid when it was refused.
inline Descriptor ConnectTo(int port) {
  Descriptor fd(socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
  sockaddr_in address = {};
  address.sin_family = AF_INET;
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  address.sin_port = htons(static_cast<uint16_t>(port));
  if (connect(fd.get(), reinterpret_cast<sockaddr*>(&address), sizeof(address)) != 0) {
    fd.Close();
  }
  return fd;
}

// "127.0.0.1:port" of its own end.
inline std::string OwnText(const Descriptor& fd) {
  sockaddr_in address = {};
  socklen_t size = sizeof(address);
  getsockname(fd.get(), reinterpret_cast<sockaddr*>(&address), &size);
  return StrCat("127.0.0.1:", ntohs(address.sin_port));
}

// Whether the other end closes it within `most`.
inline bool IsClosed(const Descriptor& fd, std::chrono::milliseconds most = kPatience) {
  pollfd ready = {.fd = fd.get(), .events = POLLIN, .revents = 0};
  char byte;
  return poll(&ready, 1, static_cast<int>(most.count())) == 1 &&
         recv(fd.get(), &byte, 1, MSG_DONTWAIT) <= 0;
}

// Two ends of one connection.
struct SocketPair {
  SocketPair() {
    Descriptor listening(socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
    sockaddr_in address = {};
    address.sin_family = AF_INET;
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    socklen_t size = sizeof(address);
    auto* const raw = reinterpret_cast<sockaddr*>(&address);
    EXPECT_EQ(bind(listening.get(), raw, size), 0);
    EXPECT_EQ(listen(listening.get(), 1), 0);
    EXPECT_EQ(getsockname(listening.get(), raw, &size), 0);
    client = ConnectTo(ntohs(address.sin_port));
    server = Descriptor(accept(listening.get(), nullptr, nullptr));
    EXPECT_TRUE(client.valid() && server.valid());
  }
  // The connection as a server sees it.
  std::shared_ptr<Connection> Accepted(
      int64_t most_calls = 8, Connection::Time now = std::chrono::steady_clock::now(),
      double allowance = 1) const {
    return std::make_shared<Connection>(
        OwnText(client), Descriptor(fcntl(server.get(), F_DUPFD_CLOEXEC, 0)),
        most_calls, now, allowance);
  }

  Descriptor client, server;
};

}  // namespace mnemon
