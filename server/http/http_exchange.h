// SPDX-License-Identifier: MIT
// One HTTP/1.1 request and its response, which may come later, and in parts.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "absl/strings/match.h"

namespace mnemon {

struct HttpHeader {
  std::string name;
  std::string value;
};

struct HttpRequest {
  std::string method;  // as sent: "GET"
  std::string path;    // of the target, without the query; not decoded
  std::string query = {};
  std::vector<HttpHeader> headers = {};
  std::string body = {};  // empty until HttpExchange::ReadBody

  // The value of the first header with this name, in any case; empty: absent.
  std::string_view Header(std::string_view name) const {
    for (const HttpHeader& header : headers) {
      if (absl::EqualsIgnoreCase({name.data(), name.size()}, header.name)) {
        return header.value;
      }
    }
    return {};
  }
};

struct HttpResponse {
  int code = 200;
  std::string type = "text/plain; charset=utf-8";  // empty: no body
  std::string body;
  std::vector<HttpHeader> headers = {};
};

// What becomes of a body that is read.
struct BodyEvents {
  // Called with the number of bytes received so far; returns whether there is memory
  // for them.
  std::function<bool(int64_t bytes)> keep;
  std::function<void()> done;  // the body is complete
  // Returns the response to a body that is malformed (400), too long (413) or refused
  // by `keep` (429).
  std::function<HttpResponse(int code)> refuse;
};

// The first call is Respond, Admit or ReadBody. All methods but request() are safe for
// concurrent use and do not wait; callbacks run on the server's thread and must not
// block it. An exchange on which no method is called ends after HttpOptions::timeout.
class HttpExchange {
 public:
  virtual ~HttpExchange() = default;

  // Constant, except for the body, which is filled in before ReadBody calls `done`.
  virtual const HttpRequest& request() const = 0;

  // Reads a body of at most `limit` bytes within HttpOptions::timeout.
  virtual void ReadBody(int64_t limit, BodyEvents events) = 0;

  // Lifts HttpOptions::timeout and keeps the connection when others need a place.
  // `gone` is called at most once, before the end of the response: when the peer has
  // disconnected, or has taken nothing of what is written for the write timeout. False:
  // HttpOptions::most_admitted are admitted already.
  virtual bool Admit(std::function<void()> gone) = 0;

  // Sends the whole response. Once, and not after Begin.
  virtual void Respond(HttpResponse response) = 0;
  // Begins a response in parts with the code, type, headers and body of `head`.
  // `written` is called each time the kernel has taken what was to be written.
  virtual void Begin(HttpResponse head, std::function<void()> written) = 0;
  // Sends the next part, not empty. REQUIRES: Begin; the part before is written.
  virtual void Write(std::string part) = 0;
  // Ends the parts. REQUIRES: as Write.
  virtual void End() = 0;
  // Closes the connection, so that the peer sees an incomplete response. Without memory
  // for that, the connection ends with its time limit or its peer.
  virtual void Abort() noexcept = 0;
};

// Called for each request, once its header is read, on the server's thread. What it
// refers to outlives the server. An exception that it throws becomes the response 500.
using HttpHandler = std::function<void(std::shared_ptr<HttpExchange>)>;

}  // namespace mnemon
