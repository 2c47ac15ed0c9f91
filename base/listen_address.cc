// SPDX-License-Identifier: MIT
#include "base/listen_address.h"

#include <netdb.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <memory>

#include "absl/strings/numbers.h"
#include "base/error.h"
#include "base/quote.h"
#include "base/strings.h"

namespace mnemon {
namespace {

// 0, or the errno of the failure.
int TryBind(const addrinfo& address) {
  const int fd = socket(address.ai_family, SOCK_STREAM | SOCK_CLOEXEC, 0);
  if (fd < 0) return errno;
  const int on = 1;
  // Like gRPC: addresses of closed connections are free, listening ones are not.
  setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &on, sizeof(on));
  const int result = bind(fd, address.ai_addr, address.ai_addrlen) == 0 ? 0 : errno;
  close(fd);
  return result;
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

absl::Status CheckBindable(const ListenAddress& address, std::string_view field) {
  addrinfo hints = {};
  hints.ai_family = AF_UNSPEC;
  hints.ai_socktype = SOCK_STREAM;
  hints.ai_flags = AI_PASSIVE | AI_NUMERICSERV;
  addrinfo* found = nullptr;
  const int error = getaddrinfo(address.host.c_str(),
                                std::to_string(address.port).c_str(), &hints, &found);
  if (error != 0) return ListenFailed(address, field, gai_strerror(error));
  std::unique_ptr<addrinfo, decltype(&freeaddrinfo)> owner(found, &freeaddrinfo);
  int last = EADDRNOTAVAIL;
  bool bound = false;
  for (const addrinfo* one = found; one != nullptr; one = one->ai_next) {
    const int result = TryBind(*one);
    if (result == EADDRINUSE) {
      return ListenFailed(address, field, std::strerror(result));
    }
    if (result == 0) {
      bound = true;
    } else {
      last = result;
    }
  }
  return bound ? absl::OkStatus() : ListenFailed(address, field, std::strerror(last));
}

}  // namespace mnemon
