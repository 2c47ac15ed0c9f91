// SPDX-License-Identifier: MIT
// A request to the HTTP port of a server on loopback, bounded in time.
#pragma once

#include <string>

namespace mnemon::serving {

struct HttpAnswer {
  int code = 0;  // 0: none came within five seconds of silence
  std::string body;
};

HttpAnswer HttpGet(int port, const std::string& path);

}  // namespace mnemon::serving
