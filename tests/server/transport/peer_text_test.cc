// SPDX-License-Identifier: MIT
#include "server/transport/peer_text.h"

#include <arpa/inet.h>
#include <netinet/in.h>

#include <cstring>

#include "gtest/gtest.h"

namespace mnemon {
namespace {

sockaddr_storage Six(const char* text, int port, uint32_t scope = 0) {
  sockaddr_in6 six = {};
  six.sin6_family = AF_INET6;
  six.sin6_port = htons(static_cast<uint16_t>(port));
  six.sin6_scope_id = scope;
  EXPECT_EQ(inet_pton(AF_INET6, text, &six.sin6_addr), 1);
  sockaddr_storage address = {};
  std::memcpy(&address, &six, sizeof(six));
  return address;
}

sockaddr_storage Four(const char* text, int port) {
  sockaddr_in four = {};
  four.sin_family = AF_INET;
  four.sin_port = htons(static_cast<uint16_t>(port));
  EXPECT_EQ(inet_pton(AF_INET, text, &four.sin_addr), 1);
  sockaddr_storage address = {};
  std::memcpy(&address, &four, sizeof(four));
  return address;
}

TEST(PeerText, OfTheSystemAndOfGrpcAreTheSame) {
  EXPECT_EQ(PeerText(Four("192.0.2.1", 40312)), "192.0.2.1:40312");
  EXPECT_EQ(PeerText(std::string_view("ipv4:192.0.2.1:40312")), "192.0.2.1:40312");
  EXPECT_EQ(PeerText(Six("2001:db8::1", 7)), "[2001:db8::1]:7");
  EXPECT_EQ(PeerText(std::string_view("ipv6:%5B2001:db8::1%5D:7")), "[2001:db8::1]:7");
  EXPECT_EQ(PeerText(Six("fe80::1", 7, 3)), "[fe80::1%3]:7");
  EXPECT_EQ(PeerText(std::string_view("ipv6:%5Bfe80::1%253%5D:7")), "[fe80::1%3]:7");
  EXPECT_EQ(PeerText(Six("::ffff:192.0.2.1", 80)), "192.0.2.1:80");
}

TEST(PeerText, IsEmptyForOtherFamilies) {
  sockaddr_storage local = {};
  local.ss_family = AF_UNIX;
  EXPECT_EQ(PeerText(local), "");
  EXPECT_EQ(PeerText(std::string_view("unix:/run/x")), "");
  EXPECT_EQ(PeerText(std::string_view("")), "");
}

TEST(HostOf, LeavesThePortAway) {
  EXPECT_EQ(HostOf("192.0.2.1:40312"), "192.0.2.1");
  EXPECT_EQ(HostOf("[2001:db8::1]:7"), "2001:db8::1");
}

TEST(IsLoopback, IsTrueOfThisMachineAlone) {
  for (const char* host : {"127.0.0.1", "127.255.0.3", "::1"}) {
    EXPECT_TRUE(IsLoopback(host)) << host;
  }
  for (const char* host : {"", "10.0.0.1", "128.0.0.1", "0.0.0.0", "::", "::2", "127",
                           "127.0.0.1.example.com", "2001:db8::127", "localhost"}) {
    EXPECT_FALSE(IsLoopback(host)) << host;
  }
}

}  // namespace
}  // namespace mnemon
