// SPDX-License-Identifier: MIT
// A request to the HTTP port of a server on loopback, with a time limit.
#pragma once

#include <string>

namespace mnemon::serving {

struct HttpAnswer {
  int code = 0;  // 0: none came within the time
  std::string body;
};

// `limit`: seconds of silence; at least one.
HttpAnswer HttpGet(int port, const std::string& path, int limit = 300);

}  // namespace mnemon::serving
