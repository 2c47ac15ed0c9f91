// SPDX-License-Identifier: MIT
// One HTTP request, and its response, which may come later, and in parts.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>

#include "server/http/http_message.h"

namespace mnemon {

// The first call is Respond, Admit or ReadBody. All methods but request() are safe for
// concurrent use and do not wait; callbacks come on the server's thread and must not
// block it. Without a method called, the connection ends with its time limit.
class HttpExchange {
 public:
  virtual ~HttpExchange() = default;

  // Constant, but for the body, which is there once ReadBody's callback has come.
  virtual const HttpRequest& request() const = 0;

  // Reads the body, of at most `limit` bytes, within the time limit of the connection.
  // `keep` gets the number of bytes that have come, as they come, and says whether
  // there is room for them. `done` is not called when the peer goes, sends something
  // else than a body, more than `limit` or more than there is room for: those that stay
  // get 400, 413 or 429 from `refuse`, which gets the code.
  virtual void ReadBody(int64_t limit, std::function<bool(int64_t bytes)> keep,
                        std::function<void()> done,
                        std::function<HttpResponse(int code)> refuse) = 0;

  // The answer takes its time: it is not bound by the connection's time limit, and
  // other connections do not take its place. `gone` is called, at most once, when the
  // peer is gone, or takes nothing of what is written for the time limit of writes; not
  // behind the end of the response. False: too many are admitted
  // (HttpOptions::most_admitted).
  virtual bool Admit(std::function<void()> gone) = 0;

  // The whole response. Once, and not behind Begin.
  virtual void Respond(HttpResponse response) = 0;
  // A response in parts: begins with the code, the type, the headers and the body of
  // `head`. `written` is called each time when what was to be written is with the
  // kernel.
  virtual void Begin(HttpResponse head, std::function<void()> written) = 0;
  // The next part, not empty. REQUIRES: Begin; the part before is written.
  virtual void Write(std::string part) = 0;
  // The end of the parts. REQUIRES: as Write.
  virtual void End() = 0;
  // The end without an end: the peer sees that the response is not whole. Where memory
  // does not suffice even for that, with the time limit, or when the peer goes.
  virtual void Abort() noexcept = 0;
};

// Called for each request, when its header is there, on the server's thread. What it
// refers to outlives the server. It may throw: the answer is then 500.
using HttpHandler = std::function<void(std::shared_ptr<HttpExchange>)>;

}  // namespace mnemon
