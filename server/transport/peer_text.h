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

// As gRPC names peers, "ipv6:%5B2001:db8::1%5D:40312", to the text above. Empty when it
// is no address of these families.
std::string PeerText(std::string_view grpc_peer);

// The address of such a text, without brackets and port.
std::string HostOf(std::string_view peer);

// Whether such an address, as HostOf gives it, is of this machine alone: 127.0.0.0/8
// or ::1.
bool IsLoopback(const std::string& host);

}  // namespace mnemon
