// SPDX-License-Identifier: MIT
#include "bench/wire/socket.h"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <utility>

namespace mnemon::wire {
namespace {

constexpr size_t kReceive = 65536;

int MillisecondsUntil(TimePoint deadline) {
  const auto left = std::chrono::ceil<std::chrono::milliseconds>(
      deadline - std::chrono::steady_clock::now());
  return static_cast<int>(std::clamp<int64_t>(left.count(), 0, 60'000));
}

bool WouldBlock() { return errno == EAGAIN || errno == EINTR; }

}  // namespace

Socket::Socket(int port, const std::string& source, TimePoint deadline)
    : fd_(socket(AF_INET, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0)) {
  if (fd_ < 0) return;
  const int on = 1;
  setsockopt(fd_, IPPROTO_TCP, TCP_NODELAY, &on, sizeof(on));
  // The port is chosen per pair of addresses, so that thousands of connections fit.
  setsockopt(fd_, IPPROTO_IP, IP_BIND_ADDRESS_NO_PORT, &on, sizeof(on));
  sockaddr_in from = {}, to = {};
  from.sin_family = to.sin_family = AF_INET;
  to.sin_port = htons(static_cast<uint16_t>(port));
  to.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  int error = 0;
  socklen_t length = sizeof(error);
  if (inet_pton(AF_INET, source.c_str(), &from.sin_addr) != 1 ||
      bind(fd_, reinterpret_cast<sockaddr*>(&from), sizeof(from)) != 0) {
    Close();
    return;
  }
  if (connect(fd_, reinterpret_cast<sockaddr*>(&to), sizeof(to)) == 0) return;
  pollfd wanted = {.fd = fd_, .events = POLLOUT, .revents = 0};
  if (errno != EINPROGRESS || poll(&wanted, 1, MillisecondsUntil(deadline)) != 1 ||
      getsockopt(fd_, SOL_SOCKET, SO_ERROR, &error, &length) != 0 || error != 0) {
    Close();
  }
}

Socket::~Socket() { Close(); }

Socket::Socket(Socket&& other) noexcept : fd_(std::exchange(other.fd_, -1)) {}

Socket& Socket::operator=(Socket&& other) noexcept {
  std::swap(fd_, other.fd_);
  return *this;
}

void Socket::Close() {
  if (fd_ >= 0) close(std::exchange(fd_, -1));
}

size_t Socket::Send(std::string_view bytes) {
  size_t sent = 0;
  while (open() && sent < bytes.size()) {
    const ssize_t took =
        send(fd_, bytes.data() + sent, bytes.size() - sent, MSG_NOSIGNAL);
    if (took < 0) {
      if (!WouldBlock()) Close();
      break;
    }
    sent += static_cast<size_t>(took);
  }
  return sent;
}

bool Socket::Receive(std::string& out) {
  if (!open()) return false;
  char buffer[kReceive];
  const ssize_t got = recv(fd_, buffer, sizeof(buffer), 0);
  if (got > 0) {
    out.append(buffer, static_cast<size_t>(got));
    return true;
  }
  if (got == 0 || !WouldBlock()) Close();
  return false;
}

void Socket::Await(bool writes, TimePoint deadline) const {
  if (!open()) return;
  pollfd wanted = {.fd = fd_,
                   .events = static_cast<short>(writes ? POLLIN | POLLOUT : POLLIN),
                   .revents = 0};
  poll(&wanted, 1, MillisecondsUntil(deadline));
}

}  // namespace mnemon::wire
