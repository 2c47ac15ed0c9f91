// SPDX-License-Identifier: MIT
#include "base/listen_address.h"

#include <netdb.h>
#include <netinet/in.h>
#include <sys/socket.h>

#include <cerrno>
#include <cstddef>
#include <cstring>
#include <memory>
#include <utility>

#include "absl/strings/numbers.h"
#include "base/error.h"
#include "base/quote.h"
#include "base/strings.h"

namespace mnemon {
namespace {

constexpr int kBacklog = 1024;  // lowered by the system to net.core.somaxconn

// The port is at the same place in both families.
sockaddr_storage WithPort(const addrinfo& found, int port) {
  sockaddr_storage address = {};
  std::memcpy(&address, found.ai_addr, found.ai_addrlen);
  const auto number = htons(static_cast<uint16_t>(port));
  std::memcpy(reinterpret_cast<char*>(&address) + offsetof(sockaddr_in, sin_port),
              &number, sizeof(number));
  return address;
}

// The socket, or the errno of the failure.
struct Opened {
  Descriptor socket;
  int error = 0;
};

Opened OpenOne(const addrinfo& found, int port) {
  Opened opened{.socket = Descriptor(socket(
                    found.ai_family, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0))};
  const int fd = opened.socket.get();
  const int on = 1;
  const int off = 0;
  // Addresses of closed connections are free, listening ones are not.
  setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &on, sizeof(on));
  if (found.ai_family == AF_INET6) {
    setsockopt(fd, IPPROTO_IPV6, IPV6_V6ONLY, &off, sizeof(off));
  }
  const sockaddr_storage address = WithPort(found, port);
  if (fd < 0 ||
      bind(fd, reinterpret_cast<const sockaddr*>(&address), found.ai_addrlen) != 0 ||
      listen(fd, kBacklog) != 0) {
    opened.error = errno;
  }
  return opened;
}

int BoundPort(int fd) {
  sockaddr_storage address = {};
  socklen_t size = sizeof(address);
  getsockname(fd, reinterpret_cast<sockaddr*>(&address), &size);
  sockaddr_in four;
  std::memcpy(&four, &address, sizeof(four));
  return ntohs(four.sin_port);
}

}  // namespace

std::string ListenAddress::Text() const {
  if (host.find(':') == std::string::npos) return StrCat(host, ":", port);
  return StrCat("[", host, "]:", port);
}

absl::Status ListenFailed(const ListenAddress& address, std::string_view field,
                          std::string_view why) {
  return MakeError(
      absl::StatusCode::kUnavailable,
      StrCat("cannot listen on ", address.Text(), why.empty() ? "" : ": ", why),
      {.reason = "LISTEN_FAILED", .field = std::string(field)});
}

absl::StatusOr<ListenAddress> ParseListenAddress(std::string_view text,
                                                 std::string_view field) {
  const absl::Status wrong = InvalidField(
      std::string(field),
      StrCat("an address to listen on is HOST:PORT, for example 127.0.0.1:50051 "
             "or [::1]:50051, PORT from 0 to 65535, not ",
             Quoted(text)));
  const size_t colon = text.rfind(':');
  if (colon == std::string_view::npos) return wrong;
  std::string_view host = text.substr(0, colon);
  if (host.size() > 2 && host.front() == '[' && host.back() == ']') {
    host = host.substr(1, host.size() - 2);
  } else if (host.find(':') != std::string_view::npos) {
    return wrong;
  }
  const std::string_view digits = text.substr(colon + 1);
  ListenAddress address{.host = std::string(host)};
  if (host.empty() || digits.find_first_not_of("0123456789") != digits.npos ||
      !absl::SimpleAtoi(absl::string_view(digits.data(), digits.size()),
                        &address.port) ||
      address.port > 65535 ||
      host.find_first_of(std::string_view(" \t\r\n[]/%\0", 9)) != host.npos) {
    return wrong;
  }
  return address;
}

absl::StatusOr<ListeningSockets> Listen(const ListenAddress& address,
                                        std::string_view field) {
  addrinfo hints = {};
  hints.ai_family = AF_UNSPEC;
  hints.ai_socktype = SOCK_STREAM;
  hints.ai_flags = AI_PASSIVE | AI_NUMERICSERV;
  addrinfo* all = nullptr;
  const int error =
      getaddrinfo(address.host.c_str(), StrCat(address.port).c_str(), &hints, &all);
  if (error != 0) return ListenFailed(address, field, gai_strerror(error));
  const std::unique_ptr<addrinfo, decltype(&freeaddrinfo)> owner(all, &freeaddrinfo);
  ListeningSockets listening{.port = address.port};
  int last = EADDRNOTAVAIL;
  for (const addrinfo* one = all; one != nullptr; one = one->ai_next) {
    if (one->ai_family != AF_INET && one->ai_family != AF_INET6) continue;
    Opened opened = OpenOne(*one, listening.port);
    // A free port of the first address may be taken on the next; that one is left out.
    const bool chosen = address.port != 0 || listening.sockets.empty();
    if (opened.error == EADDRINUSE && chosen) {
      return ListenFailed(address, field, std::strerror(opened.error));
    }
    if (opened.error != 0) {
      last = opened.error;
      continue;
    }
    listening.port = BoundPort(opened.socket.get());
    listening.sockets.push_back(std::move(opened.socket));
  }
  if (listening.sockets.empty()) {
    return ListenFailed(address, field, std::strerror(last));
  }
  return listening;
}

}  // namespace mnemon
