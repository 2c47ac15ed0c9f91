// SPDX-License-Identifier: MIT
// An HTTP/1.1 server over Boost.Beast: one thread, one handler for all requests.
// No authentication, no TLS: bind it to a loopback address or a closed network.
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
  // A connection's time to send its request and to take the answer.
  std::chrono::milliseconds timeout{5000};
  // Of an admitted exchange, the time in which the peer must take what is written: a
  // part, or the whole response.
  std::chrono::milliseconds write_timeout{30000};
  int most_admitted = 1024;  // exchanges at once
};

// A connection carries one request, with a header of at most 16 KiB. Beside those that
// are admitted at most 64 connections are open: one more closes the oldest, so peers
// that are silent or slow never keep others out. Up to 32, those of which most has
// come, keep their place while their requests arrive at the pace of ArrivalPace.
class HttpServer {
 public:
  // Listens and starts the thread. UNAVAILABLE when the address cannot be bound or the
  // thread cannot be started.
  static absl::StatusOr<std::unique_ptr<HttpServer>> Start(const HttpOptions& options,
                                                           HttpHandler handler);
  // As Stop. REQUIRES: no exchange is held any more.
  virtual ~HttpServer() = default;

  // Closes all connections and joins the thread; no callback comes any more. Not from
  // the handler. Idempotent.
  virtual void Stop() = 0;

  // Waits until no exchange is admitted, because all have their answers: true; at most
  // `timeout`.
  virtual bool AwaitAnswers(std::chrono::milliseconds timeout) = 0;

  virtual int port() const = 0;
};

}  // namespace mnemon
