// SPDX-License-Identifier: MIT
#include "server/gateway/unary_route.h"

#include <algorithm>
#include <type_traits>
#include <utility>

#include <google/protobuf/message.h>

#include "base/error.h"
#include "base/quote.h"
#include "base/status_macros.h"
#include "base/strings.h"
#include "base/utf8.h"
#include "server/gateway/json_fields.h"
#include "server/gateway/message_json.h"

namespace mnemon {
namespace {

using google::protobuf::Message;

constexpr size_t kMostParameters = 32;

int HexDigit(char c) {
  if (c >= '0' && c <= '9') return c - '0';
  c = static_cast<char>(c | 0x20);
  return c >= 'a' && c <= 'f' ? c - 'a' + 10 : -1;
}

// Of a query: '+' is a space. What is no escape stays as it is.
std::string Unescaped(std::string_view text) {
  std::string out;
  for (size_t i = 0; i < text.size(); ++i) {
    const int high = text[i] == '%' && i + 2 < text.size() ? HexDigit(text[i + 1]) : -1;
    const int low = high >= 0 ? HexDigit(text[i + 2]) : -1;
    if (low >= 0) {
      out += static_cast<char>(high << 4 | low);
      i += 2;
    } else {
      out += text[i] == '+' ? ' ' : text[i];
    }
  }
  return out;
}

// What does not depend on the method.
class UnaryRouteCall : public ApiCall {
 public:
  UnaryRouteCall(const UnaryRoute& route, std::string id, GatewayShared& shared,
                 std::shared_ptr<HttpExchange> exchange, BodyCharge body)
      : ApiCall(shared, std::move(exchange), std::move(body)),
        route_(route),
        id_(std::move(id)) {}

 protected:
  absl::Status Fill(Message& message) const {
    nlohmann::json fields = nlohmann::json::object();
    if (route_.method == "GET" || route_.method == "DELETE") {
      MNEMON_ASSIGN_OR_RETURN(fields, ParseQuery(request().query));
    } else if (!request().body.empty()) {
      MNEMON_ASSIGN_OR_RETURN(fields, ParseBody(request().body));
    }
    if (!fields.is_object()) return FromJson(fields, message);
    if (!route_.name_field.empty()) SetName(fields);
    return FromJson(fields, message);
  }

 private:
  void SetName(nlohmann::json& fields) const {
    const std::string_view path = route_.name_field;
    const size_t dot = path.find('.');
    nlohmann::json* at = &fields;
    if (dot != std::string_view::npos) at = &(*at)[std::string(path.substr(0, dot))];
    // What is no object is an error of FromJson.
    if (!at->is_object() && !at->is_null()) return;
    (*at)[std::string(path.substr(dot == std::string_view::npos ? 0 : dot + 1))] =
        StrCat("sessions/", id_);
  }

  const UnaryRoute& route_;
  const std::string id_;
};

template <const auto& method>
class MethodRouteCall final : public UnaryRouteCall {
 public:
  using UnaryRouteCall::UnaryRouteCall;

 private:
  using Method = std::remove_cvref_t<decltype(method)>;

  void Run() override {
    typename Method::Request message;
    if (const absl::Status status = Fill(message); !status.ok()) return Fail(status);
    Call(method, std::move(message),
         [this](const absl::Status& status, const typename Method::Response& reply) {
           if (!status.ok()) return Fail(status);
           Reply(ToJson(reply));
         });
  }
};

template <const auto& method>
UnaryRoute Route(std::string_view http, std::string_view path,
                 std::string_view name_field) {
  return {.method = http,
          .path = path,
          .name_field = name_field,
          .make = [](const UnaryRoute& route, std::string id, GatewayShared& shared,
                     std::shared_ptr<HttpExchange> exchange,
                     BodyCharge body) -> std::shared_ptr<ApiCall> {
            return std::make_shared<MethodRouteCall<method>>(
                route, std::move(id), shared, std::move(exchange), std::move(body));
          }};
}

}  // namespace

const std::vector<UnaryRoute>& UnaryRoutes() {
  static const std::vector<UnaryRoute> routes = {
      Route<kCreateSession>("POST", "/v1/sessions", ""),
      Route<kListSessions>("GET", "/v1/sessions", ""),
      Route<kGetSession>("GET", "/v1/sessions/*", "name"),
      Route<kUpdateSession>("PATCH", "/v1/sessions/*", "session.name"),
      Route<kDeleteSession>("DELETE", "/v1/sessions/*", "name"),
      Route<kGetSessionHistory>("GET", "/v1/sessions/*/history", "name"),
      Route<kForkSession>("POST", "/v1/sessions/*/fork", "name"),
      Route<kRewindSession>("POST", "/v1/sessions/*/rewind", "name"),
      Route<kCheckpointSession>("POST", "/v1/sessions/*/checkpoint", "name"),
      Route<kVerifySession>("POST", "/v1/sessions/*/verify", "name"),
      Route<kTokenize>("POST", "/v1/tokenize", ""),
      Route<kDetokenize>("POST", "/v1/detokenize", ""),
      Route<kPredict>("POST", "/v1/predict", ""),
  };
  return routes;
}

bool Matches(std::string_view pattern, std::string_view path, std::string& id) {
  const size_t star = pattern.find('*');
  if (star == std::string_view::npos) return pattern == path;
  const std::string_view before = pattern.substr(0, star);
  const std::string_view behind = pattern.substr(star + 1);
  if (path.size() <= before.size() + behind.size() || !path.starts_with(before) ||
      !path.ends_with(behind)) {
    return false;
  }
  const std::string_view found =
      path.substr(before.size(), path.size() - before.size() - behind.size());
  if (found.find('/') != std::string_view::npos) return false;
  id = found;
  return true;
}

absl::StatusOr<nlohmann::json> ParseQuery(std::string_view query) {
  nlohmann::json out = nlohmann::json::object();
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

}  // namespace mnemon
