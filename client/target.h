// SPDX-License-Identifier: MIT
// What gRPC is to connect to, of a server's address as people write it.
#pragma once

#include <string>

namespace mnemon::client {

// "localhost" and "::1" get the port 50051, for which gRPC would take 443; HOST:PORT,
// and URIs such as unix:/run/mnemon.sock or dns:///host:1, stay as they are.
std::string TargetOf(const std::string& server);

}  // namespace mnemon::client
