// SPDX-License-Identifier: MIT
#include "server/gateway/origin_check.h"

#include <algorithm>
#include <string_view>

#include "absl/strings/ascii.h"
#include "base/error.h"
#include "base/quote.h"
#include "base/strings.h"

namespace mnemon {
namespace {

// "host:port" without the port, brackets kept.
std::string_view WithoutPort(std::string_view host) {
  const size_t colon = host.rfind(':');
  const size_t bracket = host.rfind(']');
  const bool port = colon != std::string_view::npos &&
                    (bracket == std::string_view::npos || colon > bracket);
  return port ? host.substr(0, colon) : host;
}

bool IsAddressOrLocalhost(std::string_view host) {
  const std::string name = absl::AsciiStrToLower(std::string(WithoutPort(host)));
  if (name.empty() || name == "localhost" || name.front() == '[') return true;
  return std::all_of(name.begin(), name.end(),
                     [](char c) { return c == '.' || (c >= '0' && c <= '9'); });
}

bool Contains(const std::vector<std::string>& origins, std::string_view origin) {
  return std::find(origins.begin(), origins.end(), origin) != origins.end();
}

}  // namespace

absl::Status CheckOrigin(const HttpRequest& request,
                         const std::vector<std::string>& origins, bool loopback) {
  const std::string_view host = request.Header("host");
  // A page of this server may have come through a proxy that speaks TLS.
  const std::vector<std::string> own = {StrCat("http://", host),
                                        StrCat("https://", host)};
  const bool named = Contains(origins, own[0]) || Contains(origins, own[1]);
  if (loopback && !named && !IsAddressOrLocalhost(host)) {
    return MakeError(
        absl::StatusCode::kPermissionDenied,
        StrCat("the host ", Quoted(std::string(host.substr(0, 200))),
               " is refused: the server listens on this machine alone, so call it by "
               "localhost or by its address"),
        {.reason = "HOST_NOT_ALLOWED", .field = "Host"});
  }
  const std::string_view origin = request.Header("origin");
  if (origin.empty() || (!host.empty() && Contains(own, origin)) ||
      Contains(origins, origin)) {
    return absl::OkStatus();
  }
  return MakeError(absl::StatusCode::kPermissionDenied,
                   StrCat("pages of ", Quoted(std::string(origin.substr(0, 200))),
                          " may not call; the flag --http-origin of the server allows "
                          "an origin"),
                   {.reason = "ORIGIN_NOT_ALLOWED", .field = "Origin"});
}

absl::Status CheckOriginText(const std::string& origin) {
  const size_t begin = origin.starts_with("https://")  ? 8
                       : origin.starts_with("http://") ? 7
                                                       : std::string::npos;
  if (begin != std::string::npos && begin < origin.size() &&
      origin.find_first_of("/?# *", begin) == std::string::npos) {
    return absl::OkStatus();
  }
  return InvalidField("http_origin",
                      StrCat(Quoted(origin), " is no origin, as https://example.org"));
}

std::vector<HttpHeader> CrossOriginHeaders(const HttpRequest& request,
                                           const std::vector<std::string>& origins) {
  const std::string origin(request.Header("origin"));
  if (origin.empty() || !Contains(origins, origin)) return {};
  return {
      {"Access-Control-Allow-Origin", origin},
      {"Vary", "Origin"},
      {"Access-Control-Allow-Methods", "GET, POST, PATCH, DELETE"},
      {"Access-Control-Allow-Headers", "Authorization, Content-Type, X-Request-Id"},
      {"Access-Control-Expose-Headers", "X-Request-Id, Retry-After, Retry-After-Ms"},
      {"Access-Control-Max-Age", "600"}};
}

}  // namespace mnemon
