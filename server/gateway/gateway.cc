// SPDX-License-Identifier: MIT
#include "server/gateway/gateway.h"

#include <string_view>
#include <system_error>
#include <utility>

#include "absl/strings/match.h"
#include "base/error.h"
#include "base/quote.h"
#include "base/strings.h"
#include "base/utf8.h"
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
      return route.make(route, id, shared, std::move(exchange), std::move(body));
    };
  }
  return found;
}

class HttpGateway final : public Gateway {
 public:
  HttpGateway(Service& service, const GatewayOptions& options)
      : shared_(service, options) {}

  void Handle(Exchange exchange) override {
    const HttpRequest& request = exchange->request();
    const GatewayOptions& options = shared_.options;
    if (const absl::Status status =
            CheckOrigin(request, options.origins, options.loopback);
        !status.ok()) {
      return exchange->Respond(Refusal(request, status));
    }
    if (request.path == "/" && (request.method == "GET" || request.method == "HEAD")) {
      return exchange->Respond(PlaygroundPage());
    }
    if (!IsValidUtf8(request.path)) {
      return exchange->Respond(
          Refusal(request, InvalidField("path", "the path is not UTF-8")));
    }
    // The connection leaves the body of an answer to HEAD out.
    const std::string method = request.method == "HEAD" ? "GET" : request.method;
    const Found found = FindRoute(method, request.path);
    if (found.methods.empty()) {
      return exchange->Respond(Refusal(request, PathNotFound(request.path)));
    }
    if (request.method == "OPTIONS") {
      return exchange->Respond(
          {.code = 204,
           .type = "",
           .headers =
               WithAllow(found.methods, CrossOriginHeaders(request, options.origins))});
    }
    if (found.make == nullptr) {
      HttpResponse refusal = Refusal(
          request, MakeError(absl::StatusCode::kUnimplemented,
                             StrCat("the path takes ", StrJoin(found.methods, ", ")),
                             {.reason = "METHOD_NOT_ALLOWED"}));
      refusal.headers = WithAllow(found.methods, std::move(refusal.headers));
      return exchange->Respond(std::move(refusal));
    }
    if (method == "GET" || method == "DELETE") {
      return found.make(shared_, std::move(exchange), nullptr)->Start();
    }
    ReadBody(std::move(exchange), found);
  }

 private:
  static std::vector<HttpHeader> WithAllow(const std::vector<std::string_view>& methods,
                                           std::vector<HttpHeader> headers) {
    headers.push_back({"Allow", StrJoin(methods, ", ")});
    return headers;
  }

  void ReadBody(Exchange exchange, const Found& found) {
    const HttpRequest& request = exchange->request();
    const std::string_view coding = request.Header("content-encoding");
    if (!coding.empty() &&
        !absl::EqualsIgnoreCase({coding.data(), coding.size()}, "identity")) {
      return exchange->Respond(
          Refusal(request, MakeError(absl::StatusCode::kInvalidArgument,
                                     StrCat("the body has the Content-Encoding ",
                                            Quoted(coding), ": send it as it is"),
                                     {.reason = "ENCODING_NOT_SUPPORTED",
                                      .field = "content-encoding"})));
    }
    const int64_t limit = shared_.options.max_body_bytes;
    // What has not come takes nothing.
    const auto charge = shared_.BeginCharge();
    exchange->ReadBody(
        limit, [charge](int64_t bytes) { return charge->GrowTo(bytes); },
        [this, exchange, charge, make = found.make] {
          make(shared_, exchange, charge)->Start();
        },
        [this, limit, weak = std::weak_ptr(exchange)](int code) {
          const absl::Status status = BodyRefusal(code, limit);
          const Exchange refused = weak.lock();
          return refused == nullptr ? ErrorResponse(status)
                                    : Refusal(refused->request(), status);
        });
  }

  static absl::Status BodyRefusal(int code, int64_t limit) {
    if (code == 429) return GatewayShared::MemoryLimit();
    if (code == 413) {
      return MakeError(absl::StatusCode::kInvalidArgument,
                       StrCat("the body has more than ", limit, " bytes"),
                       {.reason = "BODY_TOO_LARGE"});
    }
    return MakeError(absl::StatusCode::kInvalidArgument,
                     "the body is not one of HTTP/1.1", {.reason = "MALFORMED_BODY"});
  }

  HttpResponse Refusal(const HttpRequest& request, const absl::Status& status) const {
    HttpResponse response = ErrorResponse(status);
    for (HttpHeader& header : CrossOriginHeaders(request, shared_.options.origins)) {
      response.headers.push_back(std::move(header));
    }
    return response;
  }

  GatewayShared shared_;
};

}  // namespace

absl::StatusOr<std::unique_ptr<Gateway>> Gateway::Create(
    Service& service, const GatewayOptions& options) try {
  return std::make_unique<HttpGateway>(service, options);
} catch (const std::system_error& failure) {
  return absl::ResourceExhaustedError(
      StrCat("the threads of the HTTP API: ", failure.what()));
}

}  // namespace mnemon
