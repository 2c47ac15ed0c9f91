// SPDX-License-Identifier: MIT
// The HTTP API: JSON calls in the form of OpenAI's API and calls on sessions. Each is
// carried out by calls of the service layer, so limits, errors, metrics and log lines
// are those of gRPC calls. docs/http_api.md describes it for callers.
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
  // Of a request's body.
  int64_t max_body_bytes = 4 << 20;
  // Of all bodies that are being read or answered, of the calls made of them, and of
  // answers that are no streams while they are made.
  int64_t max_bodies_bytes = 64 << 20;
  // The origins of pages of other servers that may call ("https://example.org").
  std::vector<std::string> origins;
  // The port is bound to a loopback address: a request must name this machine, or a
  // page whose name was made to mean this machine could call.
  bool loopback = true;
};

// Safe for concurrent use, but for the destructor.
class Gateway {
 public:
  // `service` outlives the gateway. RESOURCE_EXHAUSTED when its threads cannot be
  // started.
  static absl::StatusOr<std::unique_ptr<Gateway>> Create(Service& service,
                                                         const GatewayOptions& options);
  // Waits for the calls under way. REQUIRES: HttpServer::Stop has returned, so that
  // they end.
  virtual ~Gateway() = default;

  // Answers every request that is none of a probe. Does not wait.
  virtual void Handle(std::shared_ptr<HttpExchange> exchange) = 0;
};

}  // namespace mnemon
