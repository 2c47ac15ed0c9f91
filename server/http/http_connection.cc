// SPDX-License-Identifier: MIT
#include "server/http/http_connection.h"

#include <algorithm>
#include <cstdint>
#include <exception>
#include <limits>
#include <string>
#include <string_view>
#include <utility>

#include <boost/asio/buffer.hpp>
#include <boost/beast/http/error.hpp>
#include <boost/beast/http/read.hpp>
#include <boost/beast/http/write.hpp>

#include "base/log.h"

namespace mnemon {
namespace {

namespace http = boost::beast::http;
using boost::system::error_code;
using std::chrono::milliseconds;

constexpr size_t kMaxHeader = 16384;
constexpr size_t kReadSize = 4096;
// For the peer to close after its answer.
constexpr milliseconds kLinger{1000};

bool IsTooLarge(error_code error) {
  return error == http::error::header_limit || error == http::error::buffer_overflow;
}

// The peer sent something that is not a request.
bool IsMalformed(error_code error) {
  return error.category() == make_error_code(http::error::bad_method).category() &&
         error != http::error::end_of_stream && error != http::error::partial_message;
}

}  // namespace

HttpConnection::HttpConnection(Socket socket, const HttpHandler& handler,
                               std::function<void(HttpConnection*)> on_close)
    : socket_(std::move(socket)),
      timer_(socket_.get_executor()),
      handler_(handler),
      on_close_(std::move(on_close)),
      buffer_(kMaxHeader + kReadSize) {
  parser_.header_limit(kMaxHeader);
  // The body is never parsed, so its size does not matter.
  parser_.body_limit(std::numeric_limits<uint64_t>::max());
}

void HttpConnection::Start(milliseconds timeout) {
  CloseAfter(timeout);
  http::async_read_header(
      socket_, buffer_, parser_,
      [self = shared_from_this()](error_code error, size_t) { self->OnHeader(error); });
}

void HttpConnection::Close() {
  error_code ignored;
  timer_.cancel();
  socket_.close(ignored);
  if (const auto on_close = std::exchange(on_close_, nullptr)) on_close(this);
}

void HttpConnection::CloseAfter(std::chrono::nanoseconds time) {
  timer_.expires_after(time);
  timer_.async_wait([self = shared_from_this()](error_code error) {
    if (!error) self->Close();
  });
}

void HttpConnection::OnHeader(error_code error) {
  if (IsTooLarge(error)) {
    Respond({.code = 431, .body = "the request is too large\n"}, true);
  } else if (IsMalformed(error)) {
    Respond({.code = 400, .body = "not HTTP/1\n"}, true);
  } else if (error) {
    Close();
  } else {
    const auto target = parser_.get().target();
    const std::string_view path(target.data(), target.size());
    const auto method = parser_.get().method_string();
    const HttpRequest request{.method = {method.data(), method.size()},
                              .path = std::string(path.substr(0, path.find('?')))};
    Respond(Handle(request), request.method != "HEAD");
  }
}

HttpResponse HttpConnection::Handle(const HttpRequest& request) const {
  try {
    return handler_(request);
  } catch (const std::exception& error) {
    LogEvent(LogLevel::kError, "http", {{"exception", error.what()}});
    return {.code = 500, .body = "failed\n"};
  }
}

void HttpConnection::Respond(const HttpResponse& response, bool with_body) {
  response_.version(11);
  response_.result(static_cast<unsigned>(response.code));
  response_.set(http::field::content_type, response.type);
  response_.set(http::field::cache_control, "no-store");
  if (!response.allow.empty()) response_.set(http::field::allow, response.allow);
  response_.keep_alive(false);
  response_.content_length(response.body.size());
  if (with_body) response_.body() = response.body;
  http::async_write(
      socket_, response_, [self = shared_from_this()](error_code error, size_t) {
        if (error) return self->Close();
        error_code ignored;
        self->socket_.shutdown(Socket::shutdown_send, ignored);
        const auto left = self->timer_.expiry() - std::chrono::steady_clock::now();
        self->CloseAfter(std::min<std::chrono::nanoseconds>(left, kLinger));
        self->Drain();
      });
}

void HttpConnection::Drain() {
  buffer_.clear();
  socket_.async_read_some(buffer_.prepare(kReadSize),
                          [self = shared_from_this()](error_code error, size_t) {
                            if (error) return self->Close();
                            self->Drain();
                          });
}

}  // namespace mnemon
