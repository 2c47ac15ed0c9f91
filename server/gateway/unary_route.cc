// SPDX-License-Identifier: MIT
#include "server/gateway/unary_route.h"

#include <algorithm>
#include <utility>

#include <google/protobuf/descriptor.h>

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

// The request or reply of "/mnemon.v1.Sessions/GetSession", empty.
std::unique_ptr<Message> NewMessage(std::string_view rpc, bool reply) {
  std::string name(rpc.substr(1));
  std::replace(name.begin(), name.end(), '/', '.');
  const auto* const method =
      google::protobuf::DescriptorPool::generated_pool()->FindMethodByName(name);
  const auto* const type = reply ? method->output_type() : method->input_type();
  return std::unique_ptr<Message>(
      google::protobuf::MessageFactory::generated_factory()->GetPrototype(type)->New());
}

class UnaryRouteCall final : public ApiCall {
 public:
  UnaryRouteCall(const UnaryRoute& route, std::string id, GatewayShared& shared,
                 std::shared_ptr<HttpExchange> exchange, BodyCharge body)
      : ApiCall(shared, std::move(exchange), std::move(body)),
        route_(route),
        id_(std::move(id)) {}

 private:
  void Run() override {
    std::unique_ptr<Message> message = NewMessage(route_.rpc, false);
    if (const absl::Status status = Fill(*message); !status.ok()) return Fail(status);
    Call(std::string(route_.rpc), *message, NewMessage(route_.rpc, true),
         [this](const absl::Status& status, const Message& reply) {
           if (!status.ok()) return Fail(status);
           Reply(ToJson(reply));
         });
  }

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

}  // namespace

const std::vector<UnaryRoute>& UnaryRoutes() {
  static const std::vector<UnaryRoute> routes = {
      {"POST", "/v1/sessions", "/mnemon.v1.Sessions/CreateSession", ""},
      {"GET", "/v1/sessions", "/mnemon.v1.Sessions/ListSessions", ""},
      {"GET", "/v1/sessions/*", "/mnemon.v1.Sessions/GetSession", "name"},
      {"PATCH", "/v1/sessions/*", "/mnemon.v1.Sessions/UpdateSession", "session.name"},
      {"DELETE", "/v1/sessions/*", "/mnemon.v1.Sessions/DeleteSession", "name"},
      {"GET", "/v1/sessions/*/history", "/mnemon.v1.Sessions/GetSessionHistory",
       "name"},
      {"POST", "/v1/sessions/*/fork", "/mnemon.v1.Sessions/ForkSession", "name"},
      {"POST", "/v1/sessions/*/rewind", "/mnemon.v1.Sessions/RewindSession", "name"},
      {"POST", "/v1/sessions/*/checkpoint", "/mnemon.v1.Sessions/CheckpointSession",
       "name"},
      {"POST", "/v1/sessions/*/verify", "/mnemon.v1.Sessions/VerifySession", "name"},
      {"POST", "/v1/tokenize", "/mnemon.v1.Generation/Tokenize", ""},
      {"POST", "/v1/detokenize", "/mnemon.v1.Generation/Detokenize", ""},
      {"POST", "/v1/predict", "/mnemon.v1.Generation/Predict", ""},
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

std::shared_ptr<ApiCall> MakeUnaryCall(const UnaryRoute& route, const std::string& id,
                                       GatewayShared& shared,
                                       std::shared_ptr<HttpExchange> exchange,
                                       BodyCharge body) {
  return std::make_shared<UnaryRouteCall>(route, id, shared, std::move(exchange),
                                          std::move(body));
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
