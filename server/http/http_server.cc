// SPDX-License-Identifier: MIT
#include "server/http/http_server.h"

#include <sys/socket.h>

#include <algorithm>
#include <atomic>
#include <exception>
#include <functional>
#include <list>
#include <system_error>
#include <thread>
#include <utility>
#include <vector>

#include <boost/asio/io_context.hpp>
#include <boost/asio/ip/tcp.hpp>
#include <boost/asio/steady_timer.hpp>

#include "base/listen_address.h"
#include "base/status_macros.h"
#include "server/http/http_connection.h"

namespace mnemon {
namespace {

using boost::asio::ip::tcp;
using boost::system::error_code;

constexpr size_t kMaxConnections = 64;
// Connections that keep their place because their requests arrive.
constexpr size_t kMostKept = kMaxConnections / 2;
// Pause after a failed accept, as without a free descriptor.
constexpr std::chrono::milliseconds kAcceptPause{100};
constexpr std::chrono::milliseconds kAnswerPoll{5};

bool IsIpv4(const Descriptor& socket) {
  int family = 0;
  socklen_t size = sizeof(family);
  return getsockopt(socket.get(), SOL_SOCKET, SO_DOMAIN, &family, &size) == 0 &&
         family == AF_INET;
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
    // Pending operations hold connections and their handlers' callbacks, none of which
    // may outlast this call: closed connections end them at once.
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

  // Binds the address and starts the thread.
  absl::Status Begin() {
    const ListenAddress address{.host = options_.host, .port = options_.port};
    MNEMON_ASSIGN_OR_RETURN(ListeningSockets listening, Listen(address, "http"));
    port_ = listening.port;
    // A name may have addresses of both families: IPv4 first, because peers that are
    // given the port only try it.
    auto chosen = std::ranges::find_if(listening.sockets, IsIpv4);
    const bool ipv4 = chosen != listening.sockets.end();
    if (!ipv4) chosen = listening.sockets.begin();
    error_code error;
    acceptor_.assign(ipv4 ? tcp::v4() : tcp::v6(), chosen->get(), error);
    if (error) return ListenFailed(address, "http", error.message());
    chosen->Release();
    try {
      thread_ = std::thread([this] { Run(); });
    } catch (const std::system_error& failure) {
      return ListenFailed(address, "http", failure.what());
    }
    return absl::OkStatus();
  }

  int port() const override { return port_; }

 private:
  void Run() {
    while (!io_.stopped()) {
      try {
        if (!accepting_) Accept();
        io_.run();
      } catch (const std::exception& error) {
        // Memory has run out: this peer gets nothing, later ones may.
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
    int64_t least = 0;  // a connection keeps its place with more bytes than this
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

  // Constant after Begin.
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
  MNEMON_RETURN_IF_ERROR(server->Begin());
  return server;
}

}  // namespace mnemon
