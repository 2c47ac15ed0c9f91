// SPDX-License-Identifier: MIT
// An HTTP/1.1 server over Boost.Beast: one thread, one handler for all requests.
// It has neither authentication nor TLS: bind it to a loopback address or a closed
// network.
#pragma once

#include <chrono>
#include <memory>
#include <string>

#include "absl/status/statusor.h"
#include "server/http/http_exchange.h"

namespace mnemon {

struct HttpOptions {
  std::string host;
  int port = 0;  // 0: any free port
  // Time that a connection has to send its request and to take the answer.
  std::chrono::milliseconds timeout{5000};
  // Time without progress after which the peer of an admitted exchange counts as gone.
  std::chrono::milliseconds write_timeout{30000};
  int most_admitted = 1024;  // exchanges at once
};

// A connection carries one request, with a header of at most 16 KiB. At most 64
// connections are open that are not admitted: one more closes the oldest, so that
// silent and slow peers never keep others out. Up to 32 of them, those that have sent
// most, keep their place while their requests arrive at the pace of ArrivalPace.
class HttpServer {
 public:
  // UNAVAILABLE when the address cannot be bound or the thread cannot be started.
  static absl::StatusOr<std::unique_ptr<HttpServer>> Start(const HttpOptions& options,
                                                           HttpHandler handler);
  // Stops. REQUIRES: no exchange is held any more.
  virtual ~HttpServer() = default;

  // Closes all connections and joins the thread; no callback runs afterwards. Not from
  // the handler. Idempotent.
  virtual void Stop() = 0;

  // Waits until all admitted exchanges have their answers; false after `timeout`.
  virtual bool AwaitAnswers(std::chrono::milliseconds timeout) = 0;

  virtual int port() const = 0;
};

}  // namespace mnemon
