// SPDX-License-Identifier: MIT
// The HTTP paths that stand for one unary method each, as a table.
#pragma once

#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/statusor.h"
#include "server/gateway/api_call.h"
#include "server/http/http_message.h"

namespace mnemon {

struct UnaryRoute {
  std::string_view method;  // of HTTP
  // "/v1/sessions/*/fork": '*' is the id in the resource name.
  std::string_view path;
  // The field of the request that gets "sessions/ID", as a path; empty: none.
  std::string_view name_field;
  std::shared_ptr<ApiCall> (*make)(const UnaryRoute& route, std::string id,
                                   GatewayShared& shared,
                                   std::shared_ptr<HttpExchange> exchange,
                                   BodyCharge body);
};

// Fields come from the body, a JSON object or empty, or, of a GET or DELETE, from the
// query.
const std::vector<UnaryRoute>& UnaryRoutes();

// Whether `path` is one of `pattern`; `id` gets what stands for '*'.
bool Matches(std::string_view pattern, std::string_view path, std::string& id);

// The values of a query, "a=1&b=%20", as a JSON object of strings. INVALID_ARGUMENT for
// a name that comes twice, and more than 32 of them.
absl::StatusOr<nlohmann::json> ParseQuery(std::string_view query);

}  // namespace mnemon
