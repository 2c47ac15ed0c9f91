// SPDX-License-Identifier: MIT
// One connection of the HTTP server, which carries one request and its response.
#pragma once

#include <atomic>
#include <chrono>
#include <exception>
#include <functional>
#include <memory>
#include <optional>
#include <string>

#include <boost/asio/ip/tcp.hpp>
#include <boost/asio/steady_timer.hpp>
#include <boost/beast/core/flat_buffer.hpp>
#include <boost/beast/http/message.hpp>
#include <boost/beast/http/parser.hpp>
#include <boost/beast/http/serializer.hpp>
#include <boost/beast/http/string_body.hpp>

#include "server/http/http_server.h"
#include "server/http/request_head.h"
#include "server/transport/connection.h"

namespace mnemon {

// Logs an exception that ends a connection, if there is memory for that.
void LogHttpFailure(const std::exception& error) noexcept;

// Methods that HttpExchange does not declare, and all callbacks, run on the thread of
// the socket's io_context. Shared by its pending operations, the server, and whoever
// answers.
class HttpConnection final : public HttpExchange,
                             public std::enable_shared_from_this<HttpConnection> {
 public:
  using Socket = boost::asio::ip::tcp::socket;

  // `options`, `handler` and `admitted`, the number of admitted connections, outlive
  // the connection. `on_close` is called once.
  HttpConnection(Socket socket, const HttpOptions& options, const HttpHandler& handler,
                 std::atomic<int>& admitted,
                 std::function<void(HttpConnection*)> on_close);
  ~HttpConnection() override;

  // Reads the header. A connection that is not admitted closes after
  // HttpOptions::timeout, whatever happens.
  void Start();
  // Idempotent.
  void Close();
  bool admitted() const { return admitted_; }
  // Bytes received of the request; 0 when the request is complete, or arrives too
  // slowly to keep its place (ArrivalPace).
  int64_t ArrivingBytes(std::chrono::steady_clock::time_point now) const;

  const HttpRequest& request() const override { return request_; }
  void ReadBody(int64_t limit, BodyEvents events) override;
  bool Admit(std::function<void()> gone) override;
  void Respond(HttpResponse response) override;
  void Begin(HttpResponse head, std::function<void()> written) override;
  void Write(std::string part) override;
  void End() override;
  void Abort() noexcept override;

 private:
  using Time = std::chrono::steady_clock::time_point;

  // Runs `action` on the socket's thread, unless the connection is closed by then.
  template <class Action>
  void Post(Action action);
  // The completion of an operation: closes after an error, else calls `next` with this
  // connection and the number of bytes.
  template <class Next>
  auto OrClose(Next next);
  template <class Next>
  void ReadSome(Next next);
  void CloseAt(Time time);
  // Closes once the peer has taken nothing for the write timeout, until the timer is
  // set otherwise.
  void CloseUnlessTaken();
  void CountArrived(size_t bytes);
  void ReadHead();
  void OnHeadBytes();
  void FillRequest();
  void ContinueBody(BodyEvents events);
  // Drops what the peer sends while it waits for the answer, and notices when it goes.
  void Watch();
  void Leave();  // no longer admitted
  void SetHead(const HttpResponse& response);
  void WriteWhole(const HttpResponse& response);
  template <class Buffers>
  void WritePart(const Buffers& buffers, bool last);
  void OnPartWritten(bool last);
  // Everything is written: leaves the peer time to take it.
  void Linger();
  // Drops what the peer still sends: closing a socket with unread input would discard
  // the response on its way.
  void Drain();

  Socket socket_;
  boost::asio::steady_timer timer_;
  const HttpOptions& options_;
  const HttpHandler& handler_;
  std::atomic<int>& all_admitted_;
  std::function<void(HttpConnection*)> on_close_;
  Time time_limit_;  // unless admitted
  boost::beast::flat_buffer buffer_;
  HeadEnd head_end_;
  boost::beast::http::request_parser<boost::beast::http::string_body> parser_;
  HttpRequest request_;
  boost::beast::http::response<boost::beast::http::string_body> response_;
  std::optional<
      boost::beast::http::response_serializer<boost::beast::http::string_body>>
      serializer_;
  int64_t arrived_bytes_ = 0;  // of the request
  bool arriving_ = true;       // the request is not complete
  ArrivalPace pace_;
  std::string part_;         // being written
  int64_t taken_bytes_ = 0;  // by the peer, when CloseUnlessTaken set the timer
  bool chunked_ = true;
  int64_t dropped_bytes_ = 0;  // received after the request
  std::function<void()> gone_;
  std::function<void()> written_;
  std::atomic<bool> admitted_ = false;
  std::atomic<bool> closed_ = false;
};

}  // namespace mnemon
