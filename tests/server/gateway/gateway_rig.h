// SPDX-License-Identifier: MIT
// The HTTP API over a toy decoder on a free loopback port.
#pragma once

#include <memory>
#include <string>
#include <utility>

#include "base/strings.h"
#include "nlohmann/json.hpp"
#include "server/gateway/gateway.h"
#include "server/http/http_server.h"
#include "tests/fakes/http_get.h"
#include "tests/server/rpc/rig.h"

namespace mnemon {

// Tests keep bodies in objects that are not const: their [] returns null for an absent
// member, while that of const objects is undefined.
struct JsonAnswer {
  int code = 0;
  std::string headers;
  nlohmann::json body;
};

// Members in the order of their lifetimes.
class GatewayRig {
 public:
  explicit GatewayRig(const RigOptions& options = {},
                      GatewayOptions gateway_options = {},
                      HttpOptions http_options = {})
      : rig(options) {
    auto made = Gateway::Create(*rig.service, gateway_options);
    EXPECT_TRUE(made.ok()) << made.status();
    gateway = *std::move(made);
    http_options.host = "127.0.0.1";
    auto started =
        HttpServer::Start(http_options, [this](std::shared_ptr<HttpExchange> exchange) {
          gateway->Handle(std::move(exchange));
        });
    EXPECT_TRUE(started.ok()) << started.status();
    http = *std::move(started);
  }
  ~GatewayRig() {
    rig.decoder.AllowAll();
    http->Stop();
    gateway.reset();
  }

  int port() const { return http->port(); }

  static std::string Request(const std::string& method, const std::string& path,
                             const std::string& body, const std::string& headers = "") {
    return StrCat(method, " ", path, " HTTP/1.1\r\nHost: localhost\r\n", headers,
                  "Content-Length: ", body.size(), "\r\n\r\n", body);
  }
  // The answer, with any status.
  HttpAnswer Send(const std::string& method, const std::string& path,
                  const std::string& body, const std::string& headers = "") const {
    return ParseAnswer(SendRaw(port(), Request(method, path, body, headers)));
  }
  JsonAnswer Json(const std::string& method, const std::string& path,
                  const nlohmann::json& body = nullptr) const {
    const HttpAnswer answer = Send(method, path, body.is_null() ? "" : body.dump());
    return {.code = answer.code,
            .headers = answer.headers,
            .body = nlohmann::json::parse(answer.body, nullptr, false)};
  }
  JsonAnswer Post(const std::string& path, const nlohmann::json& body) const {
    return Json("POST", path, body);
  }
  // The data of the events of a stream; "[DONE]" is a string.
  std::vector<nlohmann::json> Events(const std::string& path,
                                     const nlohmann::json& body) const {
    return ParseEvents(Send("POST", path, body.dump()).body);
  }

  static HttpAnswer ParseAnswer(const std::string& raw);
  // The joined chunks.
  static std::string Joined(const std::string& chunked);
  static std::vector<nlohmann::json> ParseEvents(const std::string& text);

  Rig rig;
  std::unique_ptr<Gateway> gateway;
  std::unique_ptr<HttpServer> http;
};

}  // namespace mnemon
