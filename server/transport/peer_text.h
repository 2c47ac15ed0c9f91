// SPDX-License-Identifier: MIT
// Texts of peers' addresses: "192.0.2.1:40312", "[2001:db8::1]:40312".
#pragma once

#include <sys/socket.h>

#include <string>
#include <string_view>

namespace mnemon {

// An IPv4 address that is mapped into IPv6 is written as IPv4. Empty for other
// families.
std::string PeerText(const sockaddr_storage& address);

// The same from gRPC's name of a peer, "ipv6:%5B2001:db8::1%5D:40312".
std::string PeerText(std::string_view grpc_peer);

// The address in such a text, without brackets and port.
std::string HostOf(std::string_view peer);

// Whether an address, as HostOf gives it, is 127.0.0.0/8 or ::1.
bool IsLoopback(const std::string& host);

}  // namespace mnemon
