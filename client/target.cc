// SPDX-License-Identifier: MIT
#include "client/target.h"

#include <algorithm>

#include "base/strings.h"

namespace mnemon::client {

std::string TargetOf(const std::string& server) {
  constexpr char kPort[] = ":50051";
  if (server.find('/') != server.npos || server.starts_with("unix:")) return server;
  const auto colons = std::count(server.begin(), server.end(), ':');
  if (server.starts_with("[")) return server.ends_with("]") ? server + kPort : server;
  if (colons == 0) return server + kPort;
  // An IPv6 address without a port.
  return colons > 1 ? StrCat("[", server, "]", kPort) : server;
}

}  // namespace mnemon::client
