// SPDX-License-Identifier: MIT
// One connection of the HTTP server, which carries one request and its response.
#pragma once

#include <chrono>
#include <functional>
#include <memory>

#include <boost/asio/ip/tcp.hpp>
#include <boost/asio/steady_timer.hpp>
#include <boost/beast/core/flat_buffer.hpp>
#include <boost/beast/http/empty_body.hpp>
#include <boost/beast/http/message.hpp>
#include <boost/beast/http/parser.hpp>
#include <boost/beast/http/string_body.hpp>

#include "server/http/http_server.h"

namespace mnemon {

// All methods and callbacks run on the thread of the socket's io_context. Shared by its
// pending operations and the server.
class HttpConnection : public std::enable_shared_from_this<HttpConnection> {
 public:
  using Socket = boost::asio::ip::tcp::socket;

  // `handler` outlives the connection. `on_close` is called once.
  HttpConnection(Socket socket, const HttpHandler& handler,
                 std::function<void(HttpConnection*)> on_close);

  // Reads the request; whatever happens, the connection closes after `timeout`.
  void Start(std::chrono::milliseconds timeout);
  // Idempotent.
  void Close();

 private:
  // Instead of the time set before.
  void CloseAfter(std::chrono::nanoseconds time);
  void OnHeader(boost::system::error_code error);
  HttpResponse Handle(const HttpRequest& request) const;
  void Respond(const HttpResponse& response, bool with_body);
  // Drops what the peer still sends: to close a socket with unread input would discard
  // the response on its way.
  void Drain();

  Socket socket_;
  boost::asio::steady_timer timer_;
  const HttpHandler& handler_;
  std::function<void(HttpConnection*)> on_close_;
  boost::beast::flat_buffer buffer_;
  boost::beast::http::request_parser<boost::beast::http::empty_body> parser_;
  boost::beast::http::response<boost::beast::http::string_body> response_;
};

}  // namespace mnemon
