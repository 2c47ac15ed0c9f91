// SPDX-License-Identifier: MIT
#include "server/http/http_server.h"

#include <algorithm>
#include <atomic>
#include <exception>
#include <functional>
#include <list>
#include <string>
#include <system_error>
#include <thread>
#include <utility>
#include <vector>

#include <boost/asio/io_context.hpp>
#include <boost/asio/ip/tcp.hpp>
#include <boost/asio/steady_timer.hpp>

#include "base/listen_address.h"
#include "base/log.h"
#include "base/strings.h"
#include "server/http/http_connection.h"

namespace mnemon {
namespace {

using boost::asio::ip::tcp;
using boost::system::error_code;

constexpr size_t kMaxConnections = 64;
// Of them, those that keep their place because their requests arrive.
constexpr size_t kMostKept = kMaxConnections / 2;
// When no connection can be accepted, as without a free descriptor.
constexpr std::chrono::milliseconds kAcceptPause{100};
constexpr std::chrono::milliseconds kAnswerPoll{5};

absl::Status HttpFailed(const HttpOptions& options, const std::string& why) {
  return ListenFailed({.host = options.host, .port = options.port}, "http", why);
}

// A name may have addresses of both families: IPv4 first, because peers that are given
// the port only try it.
std::vector<tcp::endpoint> EndpointsOf(boost::asio::io_context& io,
                                       const HttpOptions& options, error_code& error) {
  tcp::resolver resolver(io);
  const auto found =
      resolver.resolve(options.host, StrCat(options.port),
                       tcp::resolver::passive | tcp::resolver::numeric_service, error);
  std::vector<tcp::endpoint> endpoints;
  if (error) return endpoints;
  for (const auto& one : found) endpoints.push_back(one.endpoint());
  std::stable_partition(endpoints.begin(), endpoints.end(), [](const auto& endpoint) {
    return endpoint.address().is_v4();
  });
  return endpoints;
}

class BeastServer final : public HttpServer {
 public:
  BeastServer(const HttpOptions& options, HttpHandler handler)
      : options_(options), handler_(std::move(handler)) {}

  ~BeastServer() override { Stop(); }

  void Stop() override {
    io_.stop();
    if (thread_.joinable()) thread_.join();
    error_code ignored;
    acceptor_.close(ignored);
    pause_.cancel();
    // Pending operations hold connections, and what handlers gave these, none of which
    // may outlast this call: all are closed, so that they end at once.
    for (const auto& one : std::exchange(connections_, {})) one->Close();
    io_.restart();
    io_.poll();
  }

  bool AwaitAnswers(std::chrono::milliseconds timeout) override {
    const auto deadline = std::chrono::steady_clock::now() + timeout;
    while (admitted_ > 0) {
      if (std::chrono::steady_clock::now() >= deadline) return false;
      std::this_thread::sleep_for(kAnswerPoll);
    }
    return true;
  }

  absl::Status Listen() {
    error_code error;
    const std::vector<tcp::endpoint> endpoints = EndpointsOf(io_, options_, error);
    for (const tcp::endpoint& endpoint : endpoints) {
      error = Bind(endpoint);
      if (!error) break;
    }
    if (error) return HttpFailed(options_, error.message());
    port_ = acceptor_.local_endpoint().port();
    try {
      thread_ = std::thread([this] { Run(); });
    } catch (const std::system_error& failure) {
      return HttpFailed(options_, failure.what());
    }
    return absl::OkStatus();
  }

  int port() const override { return port_; }

 private:
  error_code Bind(const tcp::endpoint& endpoint) {
    error_code error;
    acceptor_ = tcp::acceptor(io_);
    acceptor_.open(endpoint.protocol(), error);
    if (!error) acceptor_.set_option(tcp::acceptor::reuse_address(true), error);
    if (!error) acceptor_.bind(endpoint, error);
    if (!error) acceptor_.listen(tcp::acceptor::max_listen_connections, error);
    return error;
  }

  void Run() {
    while (!io_.stopped()) {
      try {
        if (!accepting_) Accept();
        io_.run();
      } catch (const std::exception& error) {
        // Memory ran out: this peer gets nothing, later ones may.
        LogHttpFailure(error);
      }
    }
  }

  void Accept() {
    acceptor_.async_accept([this](error_code error, tcp::socket socket) {
      accepting_ = false;
      if (error == boost::asio::error::operation_aborted) return;
      if (error) return AcceptLater();
      Accept();
      Serve(std::move(socket));
    });
    accepting_ = true;
  }

  void AcceptLater() {
    pause_.expires_after(kAcceptPause);
    pause_.async_wait([this](error_code error) {
      accepting_ = false;
      if (!error) Accept();
    });
    accepting_ = true;
  }

  void Serve(tcp::socket socket) {
    MakeWay();
    const auto connection = std::make_shared<HttpConnection>(
        std::move(socket), options_, handler_, admitted_,
        [this](HttpConnection* closed) {
          connections_.remove_if([&](const auto& one) { return one.get() == closed; });
        });
    connections_.push_back(connection);
    connection->Start();
  }

  void MakeWay() {
    const auto now = std::chrono::steady_clock::now();
    std::vector<std::shared_ptr<HttpConnection>> waiting;  // the oldest first
    std::vector<int64_t> arriving;
    for (const auto& one : connections_) {
      if (one->admitted()) continue;
      waiting.push_back(one);
      if (const int64_t bytes = one->ArrivingBytes(now); bytes > 0) {
        arriving.push_back(bytes);
      }
    }
    if (waiting.size() < kMaxConnections) return;
    // As many as keep their place have more bytes than this.
    int64_t least = 0;
    if (arriving.size() > kMostKept) {
      const auto at = arriving.begin() + kMostKept;
      std::nth_element(arriving.begin(), at, arriving.end(), std::greater<>());
      least = *at;
    }
    const auto gives_way =
        std::find_if(waiting.begin(), waiting.end(),
                     [&](const auto& one) { return one->ArrivingBytes(now) <= least; });
    (*gives_way)->Close();
  }

  // Constant after Listen.
  const HttpOptions options_;
  const HttpHandler handler_;
  int port_ = 0;
  std::atomic<int> admitted_ = 0;

  boost::asio::io_context io_{1};
  // Owned by thread_ while it runs.
  tcp::acceptor acceptor_{io_};
  boost::asio::steady_timer pause_{io_};
  bool accepting_ = false;  // or about to, after a pause
  std::list<std::shared_ptr<HttpConnection>> connections_;  // the oldest first

  std::thread thread_;
};

}  // namespace

absl::StatusOr<std::unique_ptr<HttpServer>> HttpServer::Start(
    const HttpOptions& options, HttpHandler handler) {
  auto server = std::make_unique<BeastServer>(options, std::move(handler));
  if (absl::Status status = server->Listen(); !status.ok()) return status;
  return server;
}

}  // namespace mnemon
