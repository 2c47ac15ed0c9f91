// SPDX-License-Identifier: MIT
#include "client/target.h"

#include "gtest/gtest.h"

namespace mnemon::client {
namespace {

TEST(TargetOf, AddsThePortThatIsMissing) {
  const std::pair<const char*, const char*> cases[] = {
      {"localhost", "localhost:50051"},
      {"10.0.0.1", "10.0.0.1:50051"},
      {"::1", "[::1]:50051"},
      {"[::1]", "[::1]:50051"},
      {"2001:db8::2", "[2001:db8::2]:50051"},
      {"localhost:443", "localhost:443"},
      {"[::1]:80", "[::1]:80"},
      {"unix:/run/mnemon.sock", "unix:/run/mnemon.sock"},
      {"unix:relative", "unix:relative"},
      {"dns:///host", "dns:///host"},
  };
  for (const auto& [server, target] : cases) EXPECT_EQ(TargetOf(server), target);
}

}  // namespace
}  // namespace mnemon::client
