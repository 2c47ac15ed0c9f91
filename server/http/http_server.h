// SPDX-License-Identifier: MIT
// An HTTP/1.1 server over Boost.Beast: one thread, one handler for all requests.
// No authentication, no TLS: bind it to a loopback address or a closed network.
#pragma once

#include <chrono>
#include <functional>
#include <memory>
#include <string>

#include "absl/status/statusor.h"

namespace mnemon {

struct HttpRequest {
  std::string method;  // as sent: "GET"
  std::string path;    // of the target, without the query; not decoded
};

struct HttpResponse {
  int code = 200;
  std::string type = "text/plain; charset=utf-8";
  std::string body;
  std::string allow = {};  // the header Allow; empty: none
};

// Called on the server's thread; what it refers to outlives the server. It may throw:
// the answer is then 500.
using HttpHandler = std::function<HttpResponse(const HttpRequest&)>;

struct HttpOptions {
  std::string host;
  int port = 0;  // 0: any free port
  // A connection's time to send its request and to take the answer.
  std::chrono::milliseconds timeout{5000};
};

// A connection carries one request, with a header of at most 16 KiB and a body that is
// dropped. At most 64 connections are open: one more closes the oldest, so peers that
// are silent or slow never keep others out.
class HttpServer {
 public:
  // Listens and starts the thread. UNAVAILABLE when the address cannot be bound or the
  // thread cannot be started.
  static absl::StatusOr<std::unique_ptr<HttpServer>> Start(const HttpOptions& options,
                                                           HttpHandler handler);
  // Closes all connections and joins the thread. Not from the handler.
  virtual ~HttpServer() = default;

  virtual int port() const = 0;
};

}  // namespace mnemon
