// SPDX-License-Identifier: MIT
#include "server/gateway/gateway.h"

#include <algorithm>
#include <charconv>
#include <string_view>
#include <utility>

#include "base/error.h"
#include "base/strings.h"
#include "server/gateway/api_call.h"
#include "server/gateway/api_error.h"
#include "server/gateway/jobs.h"
#include "server/gateway/origin_check.h"
#include "server/gateway/playground.h"
#include "server/gateway/unary_route.h"

namespace mnemon {
namespace {

using Exchange = std::shared_ptr<HttpExchange>;
using MakeCall = std::shared_ptr<ApiCall> (*)(const std::string& id,
                                              GatewayShared& shared, Exchange exchange,
                                              BodyCharge body);

// A path that is no unary call: see UnaryRoute.
struct Route {
  std::string_view method;
  std::string_view path;
  MakeCall make;
};

constexpr Route kRoutes[] = {
    {"GET", "/v1/models",
     [](const auto&, auto& shared, Exchange exchange, BodyCharge) {
       return MakeModels("", shared, std::move(exchange));
     }},
    {"GET", "/v1/models/*",
     [](const auto& id, auto& shared, Exchange exchange, BodyCharge) {
       return MakeModels(id, shared, std::move(exchange));
     }},
    {"POST", "/v1/completions",
     [](const auto&, auto& shared, Exchange exchange, BodyCharge body) {
       return MakeCompletion(shared, std::move(exchange), std::move(body));
     }},
    {"POST", "/v1/chat/completions",
     [](const auto&, auto& shared, Exchange exchange, BodyCharge body) {
       return MakeChatCompletion(shared, std::move(exchange), std::move(body));
     }},
    {"POST", "/v1/responses",
     [](const auto&, auto& shared, Exchange exchange, BodyCharge body) {
       return MakeResponse(shared, std::move(exchange), std::move(body));
     }},
    {"DELETE", "/v1/responses/*",
     [](const auto& id, auto& shared, Exchange exchange, BodyCharge) {
       return MakeDeleteResponse(id, shared, std::move(exchange));
     }},
    {"POST", "/v1/sessions/*/generate",
     [](const auto& id, auto& shared, Exchange exchange, BodyCharge body) {
       return MakeSessionGenerate(id, shared, std::move(exchange), std::move(body));
     }},
};

// Makes the call for a path and method; the methods that the path has where this one is
// not among them.
struct Found {
  std::function<std::shared_ptr<ApiCall>(GatewayShared&, Exchange, BodyCharge)> make;
  std::vector<std::string_view> methods;
};

Found FindRoute(const std::string& method, const std::string& path) {
  Found found;
  std::string id;
  for (const Route& route : kRoutes) {
    if (!Matches(route.path, path, id)) continue;
    found.methods.push_back(route.method);
    if (route.method != method) continue;
    found.make = [&route, id](GatewayShared& shared, Exchange exchange,
                              BodyCharge body) {
      return route.make(id, shared, std::move(exchange), std::move(body));
    };
  }
  for (const UnaryRoute& route : UnaryRoutes()) {
    if (!Matches(route.path, path, id)) continue;
    found.methods.push_back(route.method);
    if (route.method != method) continue;
    found.make = [&route, id](GatewayShared& shared, Exchange exchange,
                              BodyCharge body) {
      return MakeUnaryCall(route, id, shared, std::move(exchange), std::move(body));
    };
  }
  return found;
}

// That the body may have.
int64_t BodyBytes(const HttpRequest& request, int64_t limit) {
  const std::string_view text = request.Header("content-length");
  int64_t bytes = limit;
  std::from_chars(text.data(), text.data() + text.size(), bytes);
  return std::clamp<int64_t>(bytes, 0, limit);
}

class HttpGateway final : public Gateway {
 public:
  HttpGateway(const Engine& engine, const std::shared_ptr<grpc::Channel>& channel,
              const GatewayOptions& options)
      : shared_(engine, channel, options) {}

  void Handle(Exchange exchange) override {
    const HttpRequest& request = exchange->request();
    const GatewayOptions& options = shared_.options;
    if (const absl::Status status =
            CheckOrigin(request, options.origins, options.loopback);
        !status.ok()) {
      return Refuse(*exchange, status);
    }
    if (request.path == "/" && (request.method == "GET" || request.method == "HEAD")) {
      return exchange->Respond(PlaygroundPage());
    }
    const Found found = FindRoute(request.method, request.path);
    if (found.methods.empty()) return Refuse(*exchange, PathNotFound(request.path));
    if (request.method == "OPTIONS") {
      return exchange->Respond(
          {.code = 204, .headers = CrossOriginHeaders(request, options.origins)});
    }
    if (found.make == nullptr) {
      return Refuse(*exchange,
                    MakeError(absl::StatusCode::kUnimplemented,
                              StrCat("the path takes ", StrJoin(found.methods, ", ")),
                              {.reason = "METHOD_NOT_ALLOWED"}));
    }
    if (request.method == "GET" || request.method == "DELETE") {
      return found.make(shared_, std::move(exchange), nullptr)->Start();
    }
    ReadBody(std::move(exchange), found);
  }

 private:
  void ReadBody(Exchange exchange, const Found& found) {
    const int64_t limit = shared_.options.max_body_bytes;
    const BodyCharge charge = shared_.Reserve(BodyBytes(exchange->request(), limit));
    if (charge == nullptr) {
      return Refuse(*exchange, MakeError(absl::StatusCode::kResourceExhausted,
                                         "the bodies of other requests take the memory",
                                         {.reason = "MEMORY_LIMIT",
                                          .retry_after = std::chrono::seconds(1)}));
    }
    exchange->ReadBody(
        limit,
        [this, exchange, charge, make = found.make] {
          make(shared_, exchange, charge)->Start();
        },
        [limit](int code) {
          return ErrorResponse(
              code == 413
                  ? MakeError(absl::StatusCode::kInvalidArgument,
                              StrCat("the body has more than ", limit, " bytes"),
                              {.reason = "BODY_TOO_LARGE"})
                  : MakeError(absl::StatusCode::kInvalidArgument,
                              "the body is not one of HTTP/1.1",
                              {.reason = "MALFORMED_BODY"}));
        });
  }

  void Refuse(HttpExchange& exchange, const absl::Status& status) const {
    HttpResponse response = ErrorResponse(status);
    for (HttpHeader& header :
         CrossOriginHeaders(exchange.request(), shared_.options.origins)) {
      response.headers.push_back(std::move(header));
    }
    exchange.Respond(std::move(response));
  }

  GatewayShared shared_;
};

}  // namespace

std::unique_ptr<Gateway> Gateway::Create(const Engine& engine,
                                         std::shared_ptr<grpc::Channel> channel,
                                         const GatewayOptions& options) {
  return std::make_unique<HttpGateway>(engine, channel, options);
}

}  // namespace mnemon
