// SPDX-License-Identifier: MIT
// HTTP for probes and Prometheus: GET and HEAD of /metrics, /healthz and /readyz.
// No authentication, no TLS: bind it to a loopback address or a closed network.
#pragma once

#include <chrono>
#include <functional>
#include <memory>
#include <string>

#include "absl/status/statusor.h"

namespace mnemon {

struct HttpOptions {
  std::string host;
  int port = 0;  // 0: any free port
  // Called on the server's thread; what they refer to outlives the server.
  std::function<std::string()> metrics;    // the body of /metrics
  std::function<std::string()> not_ready;  // empty: ready, else why not
  // A connection's time to send its request and to take the answer.
  std::chrono::milliseconds patience{5000};
};

// One thread that waits for no peer. Each connection is of one request of at most 16
// KiB; of 64 at once the oldest gives way to the next, so no number of peers that say
// nothing keeps others out.
class HttpServer {
 public:
  // UNAVAILABLE when the address cannot be bound.
  static absl::StatusOr<std::unique_ptr<HttpServer>> Start(HttpOptions options);
  // Closes all connections.
  virtual ~HttpServer() = default;

  virtual int port() const = 0;
};

}  // namespace mnemon
