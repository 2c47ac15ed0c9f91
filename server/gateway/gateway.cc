// SPDX-License-Identifier: MIT
#include "server/gateway/gateway.h"

#include <algorithm>
#include <charconv>
#include <string_view>
#include <system_error>
#include <type_traits>
#include <utility>

#include <google/protobuf/message.h>

#include "absl/strings/match.h"
#include "base/error.h"
#include "base/quote.h"
#include "base/status_macros.h"
#include "base/strings.h"
#include "base/utf8.h"
#include "server/gateway/api_json.h"
#include "server/gateway/generation_job.h"
#include "server/gateway/openai_fields.h"
#include "server/gateway/origin_check.h"

namespace mnemon {

// The playground: one page, made from the folder playground when the server is built.
extern const char kPlaygroundPage[];
extern const unsigned long kPlaygroundBytes;

namespace {

using nlohmann::json;
using Exchange = std::shared_ptr<HttpExchange>;

// The policy lets a browser load nothing else, and call this server alone.
HttpResponse PlaygroundPage() {
  return {.type = "text/html; charset=utf-8",
          .body = std::string(kPlaygroundPage, kPlaygroundBytes),
          .headers = {{"Content-Security-Policy",
                       "default-src 'none'; script-src 'unsafe-inline'; style-src "
                       "'unsafe-inline'; img-src data:; connect-src 'self'; base-uri "
                       "'none'; form-action 'none'; frame-ancestors 'none'"},
                      {"Referrer-Policy", "no-referrer"}}};
}

absl::Status BodyRefusal(int code, int64_t limit) {
  if (code == 429) return BodyMemoryError();
  if (code == 413) {
    return MakeError(absl::StatusCode::kInvalidArgument,
                     StrCat("the body has more than ", limit, " bytes"),
                     {.reason = "BODY_TOO_LARGE"});
  }
  return MakeError(absl::StatusCode::kInvalidArgument,
                   "the body is not one of HTTP/1.1", {.reason = "MALFORMED_BODY"});
}

// Text of a query, in which '+' is a space. What is not an escape stays as it is.
std::string Unescaped(std::string_view text) {
  std::string out;
  for (size_t i = 0; i < text.size(); ++i) {
    const char* const digits = text.data() + i + 1;
    unsigned char byte = 0;
    if (text[i] == '%' && i + 2 < text.size() &&
        std::from_chars(digits, digits + 2, byte, 16).ptr == digits + 2) {
      out += static_cast<char>(byte);
      i += 2;
    } else {
      out += text[i] == '+' ? ' ' : text[i];
    }
  }
  return out;
}

// The values of a query, "a=1&b=%20", as a JSON object of strings and booleans.
absl::StatusOr<json> ParseQuery(std::string_view query) {
  constexpr size_t kMostParameters = 32;
  json out = json::object();
  while (!query.empty()) {
    const std::string_view pair = query.substr(0, query.find('&'));
    query.remove_prefix(std::min(pair.size() + 1, query.size()));
    if (pair.empty()) continue;
    const std::string_view before = pair.substr(0, pair.find('='));
    const std::string name = Unescaped(before);
    const std::string value =
        Unescaped(pair.substr(std::min(before.size() + 1, pair.size())));
    if (!IsValidUtf8(name) || !IsValidUtf8(value)) {
      return InvalidField("query", "the query is not UTF-8");
    }
    if (out.contains(name) || out.size() >= kMostParameters) {
      return InvalidField(name.substr(0, 100),
                          StrCat("the query has ", Quoted(name),
                                 " twice, or more than ", kMostParameters, " names"));
    }
    if (value == "true" || value == "false") {
      out[name] = value == "true";
    } else {
      out[name] = value;
    }
  }
  return out;
}

// Fills a request from the query of a GET or DELETE, or from the body, which may be
// empty, of another method.
absl::Status FillRequest(const ApiRoute& route, const std::string& id,
                         const HttpRequest& request,
                         google::protobuf::Message& message) {
  json fields = json::object();
  if (route.method == "GET" || route.method == "DELETE") {
    MNEMON_ASSIGN_OR_RETURN(fields, ParseQuery(request.query));
  } else if (!request.body.empty()) {
    MNEMON_ASSIGN_OR_RETURN(fields, ParseBody(request.body));
  }
  if (fields.is_object() && route.named != nullptr) {
    json& named = *route.named == '\0' ? fields : fields[route.named];
    // FromJson refuses what is not an object.
    if (named.is_object() || named.is_null()) named["name"] = StrCat("sessions/", id);
  }
  return FromJson(fields, message);
}

template <const auto& method>
class MethodRouteCall final : public ApiCall {
 public:
  using ApiCall::ApiCall;

 private:
  using Method = std::remove_cvref_t<decltype(method)>;

  void Run() override {
    typename Method::Request message;
    const absl::Status status = FillRequest(route(), id(), request(), message);
    if (!status.ok()) return Fail(status);
    Call(method, std::move(message),
         [this](const absl::Status& end, const typename Method::Response& reply) {
           if (!end.ok()) return Fail(end);
           Reply(ToJson(reply));
         });
  }
};

// The loaded models, or one, in OpenAI's form with the facts that the gRPC API gives.
class ModelsCall final : public ApiCall {
 public:
  using ApiCall::ApiCall;

 private:
  void Run() override {
    if (!id().empty()) {
      v1::GetModelRequest request;
      request.set_name(StrCat("models/", id()));
      return Call(kGetModel, std::move(request),
                  [this](const absl::Status& status, const v1::Model& reply) {
                    if (!status.ok()) return Fail(status);
                    Reply(ModelJson(reply));
                  });
    }
    Call(kListModels, v1::ListModelsRequest(),
         [this](const absl::Status& status, const v1::ListModelsResponse& reply) {
           if (!status.ok()) return Fail(status);
           json models = json::array();
           for (const v1::Model& model : reply.models()) {
             models.push_back(ModelJson(model));
           }
           Reply({{"object", "list"}, {"data", std::move(models)}});
         });
  }

  json ModelJson(const v1::Model& model) {
    return {{"id", ModelName(model.name())},
            {"object", "model"},
            {"created", shared().start_time},
            {"owned_by", "mnemon"},
            {"mnemon", ToJson(model)}};
  }
};

template <class Call>
std::shared_ptr<ApiCall> Make(ApiStart start) {
  return std::make_shared<Call>(std::move(start));
}
template <const auto& method>
constexpr auto kUnary = Make<MethodRouteCall<method>>;

constexpr ApiRoute kRoutes[] = {
    {"GET", "/v1/models", Make<ModelsCall>},
    {"GET", "/v1/models/*", Make<ModelsCall>},
    {"POST", "/v1/completions", MakeCompletion},
    {"POST", "/v1/chat/completions", MakeChatCompletion},
    {"POST", "/v1/responses", MakeResponse},
    {"DELETE", "/v1/responses/*", MakeDeleteResponse},
    {"POST", "/v1/sessions/*/generate", MakeSessionGenerate},
    {"POST", "/v1/sessions", kUnary<kCreateSession>},
    {"GET", "/v1/sessions", kUnary<kListSessions>},
    {"GET", "/v1/sessions/*", kUnary<kGetSession>, ""},
    {"PATCH", "/v1/sessions/*", kUnary<kUpdateSession>, "session"},
    {"DELETE", "/v1/sessions/*", kUnary<kDeleteSession>, ""},
    {"GET", "/v1/sessions/*/history", kUnary<kGetSessionHistory>, ""},
    {"POST", "/v1/sessions/*/fork", kUnary<kForkSession>, ""},
    {"POST", "/v1/sessions/*/rewind", kUnary<kRewindSession>, ""},
    {"POST", "/v1/sessions/*/checkpoint", kUnary<kCheckpointSession>, ""},
    {"POST", "/v1/sessions/*/verify", kUnary<kVerifySession>, ""},
    {"POST", "/v1/tokenize", kUnary<kTokenize>},
    {"POST", "/v1/detokenize", kUnary<kDetokenize>},
    {"POST", "/v1/predict", kUnary<kPredict>}};

// Whether `path` matches `pattern`; `id` becomes what stands for '*'.
bool Matches(std::string_view pattern, std::string_view path, std::string& id) {
  const size_t star = pattern.find('*');
  if (star == std::string_view::npos) return pattern == path;
  const std::string_view before = pattern.substr(0, star);
  const std::string_view after = pattern.substr(star + 1);
  if (path.size() <= before.size() + after.size() || !path.starts_with(before) ||
      !path.ends_with(after)) {
    return false;
  }
  const std::string_view found =
      path.substr(before.size(), path.size() - before.size() - after.size());
  if (found.find('/') != std::string_view::npos) return false;
  id = found;
  return true;
}

class HttpGateway final : public Gateway {
 public:
  HttpGateway(Service& service, const GatewayOptions& options)
      : shared_(service, options) {}

  void Handle(Exchange exchange) override {
    const HttpRequest& request = exchange->request();
    const GatewayOptions& options = shared_.options;
    const auto refuse = [&](const absl::Status& status) {
      exchange->Respond(Refusal(request, status));
    };
    if (const absl::Status status =
            CheckOrigin(request, options.origins, options.loopback);
        !status.ok()) {
      return refuse(status);
    }
    if (request.path == "/" && (request.method == "GET" || request.method == "HEAD")) {
      return exchange->Respond(PlaygroundPage());
    }
    if (!IsValidUtf8(request.path)) {
      return refuse(InvalidField("path", "the path is not UTF-8"));
    }
    // The connection leaves out the body of an answer to HEAD.
    const std::string method = request.method == "HEAD" ? "GET" : request.method;
    const ApiRoute* found = nullptr;
    std::string id;
    std::vector<std::string_view> taken;  // methods that the path takes
    for (const ApiRoute& route : kRoutes) {
      if (!Matches(route.path, request.path, id)) continue;
      taken.push_back(route.method);
      if (route.method == method) found = &route;
    }
    if (taken.empty()) {
      return refuse(
          MakeError(absl::StatusCode::kNotFound,
                    StrCat("there is no ", Quoted(request.path.substr(0, 200)),
                           "; docs/http_api.md lists the paths"),
                    {.reason = "PATH_NOT_FOUND"}));
    }
    if (request.method == "OPTIONS" || found == nullptr) {
      const std::string methods = StrJoin(taken, ", ");
      HttpResponse response =
          request.method == "OPTIONS"
              ? HttpResponse{.code = 204,
                             .type = "",
                             .headers = CrossOriginHeaders(request, options.origins)}
              : Refusal(request, MakeError(absl::StatusCode::kUnimplemented,
                                           StrCat("the path takes ", methods),
                                           {.reason = "METHOD_NOT_ALLOWED"}));
      response.headers.push_back({"Allow", methods});
      return exchange->Respond(std::move(response));
    }
    ApiStart start{.shared = shared_,
                   .route = *found,
                   .id = std::move(id),
                   .exchange = std::move(exchange)};
    if (start.route.method == "GET" || start.route.method == "DELETE") {
      return start.route.make(std::move(start))->Start();
    }
    ReadBody(std::move(start));
  }

 private:
  void ReadBody(ApiStart start) {
    const HttpRequest& request = start.exchange->request();
    const std::string_view coding = request.Header("content-encoding");
    if (!coding.empty() &&
        !absl::EqualsIgnoreCase({coding.data(), coding.size()}, "identity")) {
      return start.exchange->Respond(
          Refusal(request, MakeError(absl::StatusCode::kInvalidArgument,
                                     StrCat("the body has the Content-Encoding ",
                                            Quoted(coding), ": send it as it is"),
                                     {.reason = "ENCODING_NOT_SUPPORTED",
                                      .field = "content-encoding"})));
    }
    const int64_t limit = shared_.options.max_body_bytes;
    // Only what has arrived is charged.
    start.body = std::make_shared<ByteCharge>(shared_.bodies);
    HttpExchange& exchange = *start.exchange;
    exchange.ReadBody(
        limit,
        {.keep = [body = start.body](int64_t bytes) { return body->TrySet(bytes); },
         .done = [start] { start.route.make(start)->Start(); },
         .refuse =
             [this, limit, weak = std::weak_ptr(start.exchange)](int code) {
               const absl::Status status = BodyRefusal(code, limit);
               const Exchange refused = weak.lock();
               return refused == nullptr ? ErrorResponse(status)
                                         : Refusal(refused->request(), status);
             }});
  }

  HttpResponse Refusal(const HttpRequest& request, const absl::Status& status) const {
    return ErrorResponse(status, CrossOriginHeaders(request, shared_.options.origins));
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
