// SPDX-License-Identifier: MIT
// HTTP for probes and Prometheus: GET and HEAD of /metrics, /healthz and /readyz.
// No authentication, no TLS: bind it to a loopback address or a closed network.
#pragma once

#include <functional>
#include <memory>
#include <string>

#include "absl/status/statusor.h"

namespace mnemon {

struct HttpOptions {
  std::string host;
  int port = 0;  // 0: any free port
  // Called from several threads at once; what they refer to outlives the server.
  std::function<std::string()> metrics;    // the body of /metrics
  std::function<std::string()> not_ready;  // empty: ready, else why not
};

// Few threads with a time limit each, so a peer that does not read delays others for
// seconds at most.
class HttpServer {
 public:
  // UNAVAILABLE when the address cannot be bound.
  static absl::StatusOr<std::unique_ptr<HttpServer>> Start(HttpOptions options);
  // Closes all connections.
  virtual ~HttpServer() = default;

  virtual int port() const = 0;
};

}  // namespace mnemon
