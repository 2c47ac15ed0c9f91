// SPDX-License-Identifier: MIT
// Which pages of a browser may call the HTTP API: those of this server, and of the
// origins that the operator names. Browsers send what the pages of any server ask for,
// with an origin that the page cannot forge.
#pragma once

#include <string>
#include <vector>

#include "absl/status/status.h"
#include "server/http/http_exchange.h"

namespace mnemon {

// PERMISSION_DENIED: ORIGIN_NOT_ALLOWED; with `loopback` also HOST_NOT_ALLOWED, if the
// header Host is neither an address, nor localhost, nor the host of one of `origins`.
absl::Status CheckOrigin(const HttpRequest& request,
                         const std::vector<std::string>& origins, bool loopback);

// INVALID_ARGUMENT unless `origin` is "http://HOST[:PORT]" or "https://HOST[:PORT]".
absl::Status CheckOriginText(const std::string& origin);

// The headers with which a browser lets a page of one of `origins` read an answer, or
// send a request after a preflight; none for any other request.
std::vector<HttpHeader> CrossOriginHeaders(const HttpRequest& request,
                                           const std::vector<std::string>& origins);

}  // namespace mnemon
