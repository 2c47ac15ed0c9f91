// SPDX-License-Identifier: MIT
#include "server/http/http_server.h"

#include <netdb.h>
#include <netinet/in.h>
#include <poll.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <exception>
#include <string_view>
#include <system_error>
#include <thread>
#include <utility>
#include <vector>

#include "base/error.h"
#include "base/log.h"
#include "base/strings.h"

namespace mnemon {
namespace {

using std::chrono::milliseconds;
using SteadyClock = std::chrono::steady_clock;

constexpr char kText[] = "text/plain; charset=utf-8";
constexpr char kExposition[] = "text/plain; version=0.0.4; charset=utf-8";
constexpr size_t kMaxRequest = 16384;
constexpr size_t kMaxConnections = 64;
// For the peer to close after its answer.
constexpr milliseconds kLinger{1000};
// When no connection can be accepted, as without a free descriptor.
constexpr milliseconds kAcceptPause{100};

struct Answer {
  int code = 200;
  const char* reason = "OK";
  const char* type = kText;
  std::string body;
};

class Descriptor {
 public:
  explicit Descriptor(int fd = -1) : fd_(fd) {}
  Descriptor(Descriptor&& other) noexcept : fd_(std::exchange(other.fd_, -1)) {}
  Descriptor& operator=(Descriptor&& other) noexcept {
    std::swap(fd_, other.fd_);
    return *this;
  }
  ~Descriptor() {
    if (fd_ >= 0) close(fd_);
  }
  int get() const { return fd_; }

 private:
  int fd_;
};

// One request, then its answer, then what the peer still sends is read and dropped: to
// close with unread input would take the answer away from it.
struct Connection {
  Descriptor socket;
  SteadyClock::time_point deadline;
  std::string in;
  std::string out;  // not empty: the answer
  size_t sent = 0;
  bool over = false;  // the answer is sent

  bool writing() const { return !out.empty() && !over; }
};

bool WouldBlock() { return errno == EAGAIN || errno == EWOULDBLOCK || errno == EINTR; }

absl::Status ListenFailed(const std::string& address, const std::string& why) {
  return MakeError(absl::StatusCode::kUnavailable,
                   StrCat("cannot listen on ", address, ": ", why),
                   {.reason = "LISTEN_FAILED", .field = "http"});
}

absl::StatusOr<Descriptor> ListenOn(const std::string& host, int port) {
  const bool brackets = host.find(':') != std::string::npos;
  const std::string address =
      StrCat(brackets ? "[" : "", host, brackets ? "]" : "", ":", port);
  addrinfo hints = {};
  hints.ai_flags = AI_PASSIVE | AI_NUMERICSERV;
  hints.ai_socktype = SOCK_STREAM;
  addrinfo* found = nullptr;
  const int error = getaddrinfo(host.c_str(), StrCat(port).c_str(), &hints, &found);
  if (error != 0) return ListenFailed(address, gai_strerror(error));
  const std::unique_ptr<addrinfo, void (*)(addrinfo*)> owner(found, freeaddrinfo);
  // A name may stand for both families: IPv4 is what peers try when told the port only.
  std::vector<const addrinfo*> order;
  for (const addrinfo* one = found; one != nullptr; one = one->ai_next) {
    order.push_back(one);
  }
  std::stable_partition(order.begin(), order.end(),
                        [](const addrinfo* one) { return one->ai_family == AF_INET; });
  std::string why = "no address";
  for (const addrinfo* one : order) {
    Descriptor listener(
        socket(one->ai_family, one->ai_socktype | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
    const int on = 1;
    if (listener.get() >= 0 &&
        setsockopt(listener.get(), SOL_SOCKET, SO_REUSEADDR, &on, sizeof(on)) == 0 &&
        bind(listener.get(), one->ai_addr, one->ai_addrlen) == 0 &&
        listen(listener.get(), SOMAXCONN) == 0) {
      return listener;
    }
    why = std::generic_category().message(errno);
  }
  return ListenFailed(address, why);
}

int PortOf(int listener) {
  sockaddr_storage address = {};
  socklen_t size = sizeof(address);
  getsockname(listener, reinterpret_cast<sockaddr*>(&address), &size);
  return ntohs(address.ss_family == AF_INET6
                   ? reinterpret_cast<const sockaddr_in6&>(address).sin6_port
                   : reinterpret_cast<const sockaddr_in&>(address).sin_port);
}

class PollServer final : public HttpServer {
 public:
  explicit PollServer(HttpOptions options) : options_(std::move(options)) {}
  ~PollServer() override {
    if (!thread_.joinable()) return;
    eventfd_write(stop_.get(), 1);
    thread_.join();
  }

  absl::Status Listen() {
    auto listener = ListenOn(options_.host, options_.port);
    if (!listener.ok()) return listener.status();
    listener_ = *std::move(listener);
    port_ = PortOf(listener_.get());
    stop_ = Descriptor(eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK));
    if (stop_.get() < 0) {
      return ListenFailed(options_.host, std::generic_category().message(errno));
    }
    try {
      thread_ = std::thread([this] { Run(); });
    } catch (const std::system_error& error) {
      return ListenFailed(options_.host, error.what());
    }
    return absl::OkStatus();
  }

  int port() const override { return port_; }

 private:
  void Run() {
    for (;;) {
      try {
        if (!Round()) return;
      } catch (const std::exception& error) {
        // Memory ran out: these peers get nothing, later ones may.
        LogEvent(LogLevel::kError, "http", {{"exception", error.what()}});
        connections_.clear();
      }
    }
  }

  // Waits for something to do and does it; false = stop.
  bool Round() {
    const auto now = SteadyClock::now();
    const bool accepting = now >= accept_again_;
    auto due = accepting ? now + std::chrono::hours(1) : accept_again_;
    std::vector<pollfd> polled = {
        {.fd = stop_.get(), .events = POLLIN, .revents = 0},
        {.fd = accepting ? listener_.get() : -1, .events = POLLIN, .revents = 0}};
    for (const Connection& one : connections_) {
      const short events = one.writing() ? POLLOUT : POLLIN;
      polled.push_back({.fd = one.socket.get(), .events = events, .revents = 0});
      due = std::min(due, one.deadline);
    }
    const auto wait = std::chrono::ceil<milliseconds>(due - now).count();
    poll(polled.data(), polled.size(), static_cast<int>(std::max<int64_t>(wait, 0)));
    if (polled[0].revents != 0) return false;
    for (size_t i = connections_.size(); i-- > 0;) {
      Connection& one = connections_[i];
      const bool alive = polled[i + 2].revents == 0 || Serve(one);
      if (!alive || SteadyClock::now() >= one.deadline) {
        connections_.erase(connections_.begin() + static_cast<ptrdiff_t>(i));
      }
    }
    if (polled[1].revents != 0) Accept();
    return true;
  }

  void Accept() {
    Descriptor socket(
        accept4(listener_.get(), nullptr, nullptr, SOCK_CLOEXEC | SOCK_NONBLOCK));
    if (socket.get() >= 0) {
      if (connections_.size() >= kMaxConnections) {
        connections_.erase(connections_.begin());
      }
      Connection& one = connections_.emplace_back();
      one.socket = std::move(socket);
      one.deadline = SteadyClock::now() + options_.patience;
    } else if (!WouldBlock()) {
      accept_again_ = SteadyClock::now() + kAcceptPause;
    }
  }

  // Whether the connection goes on.
  bool Serve(Connection& one) const {
    if (one.writing()) return Write(one);
    char buffer[4096];
    const ssize_t got = recv(one.socket.get(), buffer, sizeof(buffer), 0);
    if (got < 0) return WouldBlock();
    if (got == 0) return false;
    if (one.over) return true;
    one.in.append(buffer, static_cast<size_t>(got));
    if (one.in.find("\r\n\r\n") != std::string::npos) {
      one.out = Response(one.in);
    } else if (one.in.size() > kMaxRequest) {
      one.out = Message({.code = 431,
                         .reason = "Request Header Fields Too Large",
                         .body = "the request is too large\n"},
                        true);
    }
    return one.out.empty() || Write(one);
  }

  static bool Write(Connection& one) {
    const ssize_t sent = send(one.socket.get(), one.out.data() + one.sent,
                              one.out.size() - one.sent, MSG_NOSIGNAL);
    if (sent < 0) return WouldBlock();
    one.sent += static_cast<size_t>(sent);
    if (one.sent < one.out.size()) return true;
    one.over = true;
    one.deadline = std::min(one.deadline, SteadyClock::now() + kLinger);
    return shutdown(one.socket.get(), SHUT_WR) == 0;
  }

  std::string Response(std::string_view request) const {
    const std::string_view line = request.substr(0, request.find("\r\n"));
    const size_t first = line.find(' ');
    const size_t last = line.rfind(' ');
    if (first == std::string_view::npos || first == last ||
        line.substr(last + 1).substr(0, 7) != "HTTP/1.") {
      return Message({.code = 400, .reason = "Bad Request", .body = "not HTTP/1\n"},
                     true);
    }
    const std::string_view method = line.substr(0, first);
    const std::string_view target = line.substr(first + 1, last - first - 1);
    Answer answer;
    try {
      answer = AnswerTo(method, target.substr(0, target.find('?')));
    } catch (const std::exception& error) {
      LogEvent(LogLevel::kError, "http", {{"exception", error.what()}});
      answer = {.code = 500, .reason = "Internal Server Error", .body = "failed\n"};
    }
    return Message(answer, method != "HEAD");
  }

  static std::string Message(const Answer& answer, bool with_body) {
    return StrCat("HTTP/1.1 ", answer.code, " ", answer.reason,
                  "\r\nContent-Type: ", answer.type,
                  "\r\nContent-Length: ", answer.body.size(),
                  "\r\nCache-Control: no-store\r\nConnection: close\r\n",
                  answer.code == 405 ? "Allow: GET, HEAD\r\n" : "", "\r\n",
                  with_body ? answer.body : "");
  }

  Answer AnswerTo(std::string_view method, std::string_view path) const {
    if (path != "/metrics" && path != "/healthz" && path != "/readyz") {
      return {.code = 404,
              .reason = "Not Found",
              .body = "not found: there is /metrics, /healthz and /readyz\n"};
    }
    if (method != "GET" && method != "HEAD") {
      return {
          .code = 405, .reason = "Method Not Allowed", .body = "GET or HEAD only\n"};
    }
    if (path == "/metrics") return {.type = kExposition, .body = options_.metrics()};
    if (path == "/healthz") return {.body = "ok\n"};
    const std::string why = options_.not_ready();
    if (why.empty()) return {.body = "ready\n"};
    return {.code = 503, .reason = "Service Unavailable", .body = why + "\n"};
  }

  // Constant after Listen.
  const HttpOptions options_;
  int port_ = 0;
  Descriptor listener_;
  Descriptor stop_;  // readable: the thread is to end

  // Owned by thread_.
  std::vector<Connection> connections_;  // the oldest first
  SteadyClock::time_point accept_again_;

  std::thread thread_;
};

}  // namespace

absl::StatusOr<std::unique_ptr<HttpServer>> HttpServer::Start(HttpOptions options) {
  auto server = std::make_unique<PollServer>(std::move(options));
  if (absl::Status status = server->Listen(); !status.ok()) return status;
  return server;
}

}  // namespace mnemon
