// SPDX-License-Identifier: MIT
#include "server/http/http_server.h"

#include <array>
#include <atomic>
#include <chrono>
#include <exception>
#include <future>
#include <string_view>
#include <system_error>
#include <thread>
#include <utility>

#include <civetweb.h>

#include "base/error.h"
#include "base/log.h"
#include "base/strings.h"

namespace mnemon {
namespace {

constexpr char kText[] = "text/plain; charset=utf-8";
constexpr unsigned kFeatureV6 = 8;  // as mg_check_feature numbers it
constexpr char kExposition[] = "text/plain; version=0.0.4; charset=utf-8";

struct Answer {
  int code = 200;
  const char* reason = "OK";
  const char* type = kText;
  std::string body;
};

class CivetServer final : public HttpServer {
 public:
  explicit CivetServer(HttpOptions options) : options_(std::move(options)) {}
  ~CivetServer() override {
    if (context_ == nullptr) return;
    // Civetweb looks whether it is to stop when somebody connects, or every two
    // seconds.
    std::atomic<bool> stopped = false;
    std::future<void> knocking;
    try {
      knocking = std::async(std::launch::async, [&] {
        while (!stopped) {
          Knock();
          std::this_thread::sleep_for(std::chrono::milliseconds(5));
        }
      });
    } catch (const std::system_error&) {
      // No thread to be had: it takes the two seconds.
    }
    mg_stop(context_);
    stopped = true;
  }

  absl::Status Listen() {
    const bool brackets = options_.host.find(':') != std::string::npos;
    if (brackets && mg_check_feature(kFeatureV6) == 0) {
      return MakeError(absl::StatusCode::kUnavailable,
                       StrCat("civetweb was built without IPv6 and cannot listen on ",
                              options_.host, ": give an IPv4 address"),
                       {.reason = "LISTEN_FAILED", .field = "http"});
    }
    const std::string address = StrCat(brackets ? "[" : "", options_.host,
                                       brackets ? "]" : "", ":", options_.port);
    const char* settings[] = {"listening_ports",
                              address.c_str(),
                              "num_threads",
                              "4",
                              "request_timeout_ms",
                              "5000",
                              "enable_keep_alive",
                              "no",
                              "max_request_size",
                              "16384",
                              nullptr};
    mg_callbacks callbacks = {};
    callbacks.log_message = [](const mg_connection*, const char* message) {
      LogEvent(LogLevel::kWarning, "http", {{"message", message}});
      return 1;
    };
    mg_init_data init = {
        .callbacks = &callbacks, .user_data = this, .configuration_options = settings};
    unsigned code = 0;
    std::array<char, 256> text = {};
    mg_error_data error = {
        .code = &code, .text = text.data(), .text_buffer_size = text.size()};
    context_ = mg_start2(&init, &error);
    mg_server_port port = {};
    if (context_ == nullptr || mg_get_server_ports(context_, 1, &port) < 1) {
      return MakeError(absl::StatusCode::kUnavailable,
                       StrCat("cannot listen on ", address, ": ", text.data()),
                       {.reason = "LISTEN_FAILED", .field = "http"});
    }
    port_ = port.port;
    // One handler for every path: this server has no files.
    mg_set_request_handler(context_, "/**", &CivetServer::Handle, this);
    return absl::OkStatus();
  }

  int port() const override { return port_; }

 private:
  void Knock() const {
    const bool any = options_.host == "0.0.0.0" || options_.host == "::";
    char error[100];
    mg_connection* connection = mg_connect_client(
        any ? "localhost" : options_.host.c_str(), port_, 0, error, sizeof(error));
    if (connection != nullptr) mg_close_connection(connection);
  }

  static int Handle(mg_connection* connection, void* self) {
    const mg_request_info* request = mg_get_request_info(connection);
    Answer answer;
    try {
      answer = static_cast<CivetServer*>(self)->AnswerTo(request->request_method,
                                                         request->local_uri);
    } catch (const std::exception& error) {
      LogEvent(LogLevel::kError, "http", {{"exception", error.what()}});
      answer = {.code = 500, .reason = "Internal Server Error", .body = "failed\n"};
    }
    const bool head = std::string_view(request->request_method) == "HEAD";
    mg_printf(connection,
              "HTTP/1.1 %d %s\r\nContent-Type: %s\r\nContent-Length: %zu\r\n"
              "Cache-Control: no-store\r\nConnection: close\r\n%s\r\n",
              answer.code, answer.reason, answer.type, answer.body.size(),
              answer.code == 405 ? "Allow: GET, HEAD\r\n" : "");
    if (!head) mg_write(connection, answer.body.data(), answer.body.size());
    return answer.code;
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

  const HttpOptions options_;
  int port_ = 0;                   // constant after Listen
  mg_context* context_ = nullptr;  // constant after Listen
};

}  // namespace

absl::StatusOr<std::unique_ptr<HttpServer>> HttpServer::Start(HttpOptions options) {
  auto server = std::make_unique<CivetServer>(std::move(options));
  if (absl::Status status = server->Listen(); !status.ok()) return status;
  return server;
}

}  // namespace mnemon
