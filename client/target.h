// SPDX-License-Identifier: MIT
// Translates a server's address as written by users to a gRPC target.
#pragma once

#include <string>

namespace mnemon::client {

// "localhost" and "::1" get the port 50051, instead of gRPC's 443; HOST:PORT, and URIs
// such as unix:/run/mnemon.sock or dns:///host:1, are unchanged.
std::string TargetOf(const std::string& server);

}  // namespace mnemon::client
