// SPDX-License-Identifier: MIT
#include "server/transport/peer_text.h"

#include <arpa/inet.h>
#include <netinet/in.h>

#include <cstring>

#include "absl/strings/str_replace.h"
#include "base/strings.h"

namespace mnemon {
namespace {

std::string Text4(const void* address, uint16_t port) {
  char text[INET_ADDRSTRLEN] = {};
  inet_ntop(AF_INET, address, text, sizeof(text));
  return StrCat(text, ":", ntohs(port));
}

}  // namespace

std::string PeerText(const sockaddr_storage& address) {
  if (address.ss_family == AF_INET) {
    sockaddr_in four;
    std::memcpy(&four, &address, sizeof(four));
    return Text4(&four.sin_addr, four.sin_port);
  }
  if (address.ss_family != AF_INET6) return "";
  sockaddr_in6 six;
  std::memcpy(&six, &address, sizeof(six));
  if (IN6_IS_ADDR_V4MAPPED(&six.sin6_addr)) {
    return Text4(six.sin6_addr.s6_addr + 12, six.sin6_port);
  }
  char text[INET6_ADDRSTRLEN] = {};
  inet_ntop(AF_INET6, &six.sin6_addr, text, sizeof(text));
  const std::string scope =
      six.sin6_scope_id == 0 ? "" : StrCat("%", six.sin6_scope_id);
  return StrCat("[", text, scope, "]:", ntohs(six.sin6_port));
}

std::string PeerText(std::string_view grpc_peer) {
  const size_t colon = grpc_peer.find(':');
  const std::string_view family = grpc_peer.substr(0, colon);
  if (family != "ipv4" && family != "ipv6") return "";
  // The characters of addresses that gRPC escapes.
  return absl::StrReplaceAll(std::string(grpc_peer.substr(colon + 1)),
                             {{"%5B", "["}, {"%5D", "]"}, {"%25", "%"}});
}

std::string HostOf(std::string_view peer) {
  std::string_view host = peer.substr(0, peer.rfind(':'));
  if (host.size() >= 2 && host.front() == '[') host = host.substr(1, host.size() - 2);
  return std::string(host);
}

bool IsLoopback(const std::string& host) {
  in_addr four;
  if (inet_pton(AF_INET, host.c_str(), &four) == 1) {
    return ntohl(four.s_addr) >> 24 == 127;
  }
  in6_addr six;
  return inet_pton(AF_INET6, host.c_str(), &six) == 1 && IN6_IS_ADDR_LOOPBACK(&six);
}

}  // namespace mnemon
