// SPDX-License-Identifier: MIT
// Which pages of a browser may call the HTTP API: those of this server, and of the
// origins that the operator names. A browser sends what a page of any other server asks
// for, with an origin that it cannot forge.
#pragma once

#include <string>
#include <vector>

#include "absl/status/status.h"
#include "server/http/http_message.h"

namespace mnemon {

// PERMISSION_DENIED: ORIGIN_NOT_ALLOWED; HOST_NOT_ALLOWED, with `loopback`, where the
// header Host is neither an address, nor localhost, nor that of one of `origins`.
absl::Status CheckOrigin(const HttpRequest& request,
                         const std::vector<std::string>& origins, bool loopback);

// INVALID_ARGUMENT for what is no "http://HOST[:PORT]" or "https://HOST[:PORT]".
absl::Status CheckOriginText(const std::string& origin);

// The headers with which a browser lets a page of one of `origins` read an answer, and
// send what it asked for in a preflight; none for any other request.
std::vector<HttpHeader> CrossOriginHeaders(const HttpRequest& request,
                                           const std::vector<std::string>& origins);

}  // namespace mnemon
