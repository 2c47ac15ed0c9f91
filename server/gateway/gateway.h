// SPDX-License-Identifier: MIT
// The HTTP API: JSON calls in the form of OpenAI's API, and calls on sessions. Calls of
// the service layer carry them out, so limits, errors, metrics and log lines are those
// of gRPC calls. docs/http_api.md describes it for callers.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "server/http/http_exchange.h"
#include "server/service/service.h"

namespace mnemon {

struct GatewayOptions {
  int64_t max_body_bytes = 4 << 20;  // of one request
  // All bodies that are being read or answered, the calls made of them, and answers
  // other than streams while they are made.
  int64_t max_bodies_bytes = 64 << 20;
  // Origins of pages of other servers that may call ("https://example.org").
  std::vector<std::string> origins;
  // The port is bound to a loopback address. A request must then name this machine, or
  // a page could call it by a name that resolves to this machine.
  bool loopback = true;
};

// Safe for concurrent use, except for the destructor.
class Gateway {
 public:
  // `service` outlives the gateway. RESOURCE_EXHAUSTED when threads cannot be started.
  static absl::StatusOr<std::unique_ptr<Gateway>> Create(Service& service,
                                                         const GatewayOptions& options);
  // Waits for open calls. REQUIRES: HttpServer::Stop has returned, so that they end.
  virtual ~Gateway() = default;

  // Answers every request except those for probes. Does not wait.
  virtual void Handle(std::shared_ptr<HttpExchange> exchange) = 0;
};

}  // namespace mnemon
