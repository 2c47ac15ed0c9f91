// SPDX-License-Identifier: MIT
// A very small HTTP client for tests, on loopback, bounded in time.
#pragma once

#include <string>

namespace mnemon {

// Sends `text` to 127.0.0.1:`port` and returns everything received until the peer
// closes; empty if that takes more than ten seconds or nobody listens.
std::string SendRaw(int port, const std::string& text);

struct HttpAnswer {
  int code = 0;  // 0: no answer
  std::string headers;
  std::string body;
};

HttpAnswer HttpGet(int port, const std::string& path,
                   const std::string& method = "GET");

}  // namespace mnemon
